"""Clients of a rig's Unix socket: the client library, and a channel that a test drives by hand.

async with FakeOrigin() as origin, socket_rig(origin, tmp_path) as rig:
    channel = await HandChannel.open(rig)
    head, body = await channel.read("b", "k")
"""

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeVar, cast

from forebay.core.names import ObjectName
from forebay.core.timers import Timers
from forebay.protocol.batch.batch_request import parse_batch
from forebay.protocol.batch.tar_entries import EntryMark, entry_header, mark_header
from forebay.protocol.channel_frames import MAX_HEAD
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.tar_header import END_OF_TAR, padding
from forebay.server.shared_memory.read_channel import ReadChannel
from forebay_client import Client
from forebay_client.shared_memory.channel import ClientChannel, ReadDeclined
from forebay_client.shared_memory.channel_input import ChannelBroken
from forebay_client.shared_memory.mapped_memory import MappedMemory
from forebay_client.shared_memory.read_signing import ReadSigner
from forebay_client.shared_memory.received_head import ReceivedHead
from harness.clients import RawClient, RawRequest
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import RawAnswer, RawConnection, head_bytes
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig

T = TypeVar("T")


class SocketRig(Rig):
    """A rig with a Unix socket, and clients of it that end with the rig."""

    def __init__(
        self, origin: FakeOrigin, directory: Path, timers: Timers | None = None, /, *, server: str = "", **settings: Any
    ) -> None:
        """`settings`: see `configuration_of`."""
        self.socket = str(directory / "forebay.sock")
        server = f'socket = "{self.socket}"\n{server}'
        super().__init__(origin.endpoint, origin.secret, directory, timers, server=server, **settings)
        self._clients: list[Client] = []

    def library(self, secret: Secret = TRAINER, **arguments: Any) -> Client:
        """The client library, for threads. By the socket unless `arguments` say otherwise."""
        key = {"access_key": secret.access, "secret_key": secret.secret, "region": secret.region}
        arguments = {"socket": self.socket, "retries": 0, "timeout": 20.0, **key, **arguments}
        self._clients.append(Client(self.endpoint, **arguments))
        return self._clients[-1]

    def forms(self) -> dict[str, int]:
        """How many reads came in which form."""
        counted = self.parts.context.metrics.counters["forebay_socket_reads_total"]
        return {labels[0]: count for labels, count in counted.items() if count}

    async def channels_are(self, number: int) -> None:
        """Waits until so many channels are open."""
        await run_loop_until(lambda: len(self.worker.client_memory.channels) == number)

    def all_channels_end(self) -> bool:
        """Whether Forebay has closed every channel that is still open."""
        channels = [cast("ReadChannel", each) for each in self.worker.client_memory.channels]
        return all(each.transport is None or each.transport.is_closing() for each in channels)

    async def promote(self, client: Client, bucket: str, *keys: str) -> None:
        """Reads objects until their blocks are in memory files, one after the other."""
        arenas = self.parts.storage.tiers.memory.arenas
        for key in keys:
            body = await asyncio.to_thread(client.get, bucket, key)
            head = self.parts.storage.tiers.memory.head(ObjectName(bucket, key))
            assert head is not None
            blocks = len(arenas) + -(-len(body) // head.block_size)
            for _ in range(3):
                await asyncio.to_thread(client.get, bucket, key)
            await run_loop_until(lambda blocks=blocks: len(arenas) == blocks)  # type: ignore[misc] # of the moment

    async def __aexit__(self, *why: Any) -> None:
        for client in self._clients:
            client.close()
        await super().__aexit__(*why)


class HandChannel:
    """A channel, its reads signed as a principal."""

    def __init__(self, channel: ClientChannel, signer: ReadSigner) -> None:
        self.channel, self.signer = channel, signer

    @classmethod
    async def open(cls, rig: SocketRig, secret: Secret = TRAINER) -> Self:
        key = SecretKey(secret.access, secret.secret)
        host = rig.endpoint.removeprefix("http://")
        channel = await asyncio.to_thread(ClientChannel, rig.socket, 20.0)
        return cls(channel, ReadSigner(host, secret.region, lambda: key))

    async def read(
        self, bucket: str, key: str, span: tuple[int, int | None] | None = None, **headers: str
    ) -> tuple[ReceivedHead, memoryview]:
        """`headers`: with `_` for `-`."""
        extra = tuple((name.replace("_", "-"), value) for name, value in headers.items())
        return await asyncio.to_thread(self.channel.read, self.signer.head(bucket, key, span, extra))

    @property
    def socket(self) -> socket.socket:
        """For what the library would never send, or read."""
        return self.channel._socket  # noqa: SLF001 # the library shows it to nobody

    @property
    def files(self) -> list[MappedMemory]:
        """The memory files that it has mapped."""
        return list(self.channel._files.values())  # noqa: SLF001 # as above

    @property
    def ring(self) -> MappedMemory:
        """The ring that it has mapped, of which it could look at all."""
        ring = self.channel._ring  # noqa: SLF001 # as above
        assert ring is not None
        return ring

    async def receive(self) -> tuple[ReceivedHead, memoryview]:
        """The response to a request that was sent by hand."""
        return await asyncio.to_thread(self.channel._receive, None)  # noqa: SLF001 # as above

    def close(self) -> None:
        self.channel.close()


class SocketClient(RawClient):
    """Sends what a test has signed over a channel as far as Forebay answers there, else as HTTP over the same socket:
    as the client library does, with nothing of its own. The answer to a batch is shown as the TAR it stands for."""

    def __init__(self, rig: Rig, secret: Secret = TRAINER) -> None:
        super().__init__(rig.endpoint, secret)
        self._path = str(rig.directory / "forebay.sock")
        self._channel: ClientChannel | None = None
        self.answered = 0
        """Requests that the channel answered."""

    async def open(self, receive_buffer: int | None = None) -> RawConnection:
        return RawConnection(*await asyncio.open_unix_connection(self._path))

    async def send(self, request: RawRequest, connection: RawConnection | None = None) -> RawAnswer:
        if connection is not None or len(request.wire) > MAX_HEAD:
            return await super().send(request, connection)
        try:
            answer = await asyncio.to_thread(self._read_batch if request.body else self._read, request)
        except (ReadDeclined, ChannelBroken):
            return await super().send(request)
        self.answered += 1
        return answer

    async def is_answered(self, batch: RawRequest) -> bool:
        """Whether the channel itself answers a batch, and does not decline it or end."""
        try:
            await asyncio.to_thread(self._read_batch, batch)
        except (ReadDeclined, ChannelBroken):
            return False
        self.answered += 1
        return True

    def _read(self, request: RawRequest) -> RawAnswer:
        head, body = self._use(lambda channel: channel.read(request.wire))
        lines = head.raw.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")[1:]
        pairs = tuple((name, value.strip()) for name, _, value in (line.partition(":") for line in lines))
        return RawAnswer(head.status, pairs, bytes(body))

    def _read_batch(self, request: RawRequest) -> RawAnswer:
        pairs = tuple(pair for pair in request.pairs if pair[0].lower() != "content-length")
        entries = self._use(
            lambda channel: entries_of(channel, head_bytes(request.method, request.target, pairs), request)
        )
        shown = (("Content-Type", "application/x-tar"), ("x-forebay-batch-entries", str(len(entries))))
        return RawAnswer(200, shown, tar_of(request.body, entries))

    def _use(self, work: Callable[[ClientChannel], T]) -> T:
        if self._channel is None:
            self._channel = ClientChannel(self._path, 20.0)
        try:
            return work(self._channel)
        except ChannelBroken:
            self._channel = None
            raise

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()


class ChannelEntry(NamedTuple):
    """An entry of a batch as a channel brings it."""

    number: int
    status: int
    text: bytes
    body: bytes


def entries_of(channel: ClientChannel, head: bytes, request: RawRequest) -> list[ChannelEntry]:
    """The answer to a batch, its bytes copied."""
    channel.send_batch(head, request.body)
    found: list[ChannelEntry] = []
    while True:
        frame = channel.receive_batch()
        at = 0
        for index, status, text, length, start in frame.entries:
            found.append(
                ChannelEntry(index, status, frame.texts[at : at + text], bytes(frame.body[start : start + length]))
            )
            at += text
        if frame.is_last:
            return found


def tar_of(document: bytes, entries: list[ChannelEntry]) -> bytes:
    """The TAR that HTTP would have brought."""
    batch = parse_batch(document)
    pieces = []
    for entry in entries:
        name, index = batch.entries[entry.number].entry_name, entry.number if batch.as_they_come else None
        if entry.status == 200:
            pieces += [entry_header(name, len(entry.body), 0, index), entry.body, padding(len(entry.body))]
        else:
            code, _, message = entry.text.decode().split("\n", 2)
            pieces.append(mark_header(name, EntryMark(entry.status, code, message), index))
    return b"".join((*pieces, END_OF_TAR))


def client_by(lane: str, rig: Rig, secret: Secret = TRAINER) -> RawClient:
    """The client that a test's lane is for: "fast", "full" and "http" by TCP, "channel" by the Unix socket."""
    if lane == "full":
        rig.worker.listener.reads.fast_lane = None
    return SocketClient(rig, secret) if lane == "channel" else rig.client(secret)


def socket_setting(directory: Path) -> str:
    """The line of [server] that `SocketClient` needs."""
    return f'socket = "{directory / "forebay.sock"}"'
