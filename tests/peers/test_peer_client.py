"""What goes over the socket between workers: frames whole, in bits and with lies in them; asking, insisting, dying."""

import asyncio
import json
import os
import signal
import struct
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import (
    ForebayError,
    OriginBroken,
    OriginRefused,
    OriginUnfit,
    OriginUnreachable,
    Throttled,
    VersionChanged,
)
from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.core.task_registry import TaskRegistry
from forebay.origin.read_outcomes import ErrorResponse
from forebay.peers.frames import MAX_DOCUMENT, MAX_PAYLOAD, SEND_PAYLOAD, Channel, Document, PeerUnavailable
from forebay.peers.peer_client import Peer
from forebay.peers.peer_codec import (
    decode,
    decode_error_response,
    decode_failure,
    decode_head,
    decode_name,
    decode_span,
    encode_error_response,
    encode_failure,
    encode_head,
    encode_name,
    encode_span,
)
from forebay.peers.unix_socket import NotListening, connect
from forebay.server.rpc.rpc_server import RpcServer

HEAD = Head(
    ObjectFacts(Version('"etag"', "v1"), 12345, "Fri, 20 Nov 2026 10:00:00 GMT", (("content-type", "a/b"),), True),
    1 << 20,
    Generation(bytes(range(8))),
    1_800_000_000.25,
    by_id=True,
)


class Wire:
    """A channel whose other end is the test's: what is fed is what arrives."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.channel = Channel(self.reader, None, 0)  # type: ignore[arg-type] # nothing is written


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">IB", len(payload), kind) + payload


@pytest.mark.parametrize("step", [1, 3, 1000])
async def test_frames_arrive_in_whatever_bits(step: int) -> None:
    wire = Wire()
    sent = frame(1, b'{"a": 1}') + frame(2, b"bytes") + frame(3, b"") + frame(1, b'{"b": 2}')
    for start in range(0, len(sent), step):
        wire.reader.feed_data(sent[start : start + step])
    assert await wire.channel.receive_document() == {"a": 1}
    assert (await wire.channel.receive()).payload == b"bytes"
    assert (await wire.channel.receive()).kind == "end"
    assert await wire.channel.receive_document() == {"b": 2}


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">IB", MAX_DOCUMENT + 1, 1),
        struct.pack(">IB", MAX_PAYLOAD + 1, 2),
        struct.pack(">IB", 1, 3) + b"x",
        struct.pack(">IB", 0, 4),
        frame(1, b"[1]"),
        frame(1, b"{"),
        frame(1, b"\xff"),
        frame(2, b"bytes where a document belongs"),
        frame(1, b'{"cut": ')[:-3],
        b"GET / HTTP/1.1\r\n\r\n",
        b"",
    ],
    ids=range(11),
)
async def test_what_is_no_frame_ends_the_connection(sent: bytes) -> None:
    wire = Wire()
    wire.reader.feed_data(sent)
    wire.reader.feed_eof()
    with pytest.raises(PeerUnavailable):
        await wire.channel.receive_document()


def over(document: Any) -> Any:
    return json.loads(json.dumps(document))


def test_what_is_told_is_what_arrives() -> None:
    told = decode_head(over(encode_head(HEAD)))
    assert told == HEAD
    assert told.facts.checksums_told
    for name in (ObjectName("b", "k/ü\n"), ObjectName("b", "\udcff")):
        assert decode_name(over(encode_name(name))) == name
    assert decode_span(over(encode_span(Span(3, 9)))) == Span(3, 9)
    refused = ErrorResponse(404, (("x", "y"),), b"\0<Error/>")
    assert decode_error_response(over(encode_error_response(refused))) == refused
    for failure in (
        OriginUnreachable("a"), OriginBroken("b"), OriginUnfit("c"), VersionChanged("d"), Throttled("e"),
    ):  # fmt: skip
        came = decode_failure(over(encode_failure(failure)))
        assert type(came) is type(failure)
        assert str(came) == str(failure)
    came = decode_failure(over(encode_failure(OriginRefused(403, (("a", "b"),), b"no"))))
    assert isinstance(came, OriginRefused)
    assert (came.status, came.headers, came.body) == (403, (("a", "b"),), b"no")
    assert decode_failure({"head": 1}) is None


DAMAGED: list[Callable[[Document], object]] = [
    lambda head: head.pop("size"),
    lambda head: head.update(size=-1),
    lambda head: head.update(size="1"),
    lambda head: head.update(size=True),
    lambda head: head.update(block=0),
    lambda head: head.update(generation="no hex"),
    lambda head: head.update(headers=[["one"]]),
    lambda head: head.update(headers=[[1, 2]]),
    lambda head: head.update(etag=None),
    lambda head: head.update(validated="soon"),
]


@pytest.mark.parametrize("damage", DAMAGED, ids=range(len(DAMAGED)))
def test_a_head_that_does_not_fit_is_none(damage: Callable[[Document], object]) -> None:
    document = over(encode_head(HEAD))
    damage(document)
    with pytest.raises(PeerUnavailable):
        decode(lambda: decode_head(document))


@asynccontextmanager
async def asked(path: Path, answers: dict[str, Any]) -> AsyncIterator[Peer]:
    port, tasks = RpcServer(path, answers), TaskRegistry()
    await port.start()
    peer = Peer(1, path, 0, tasks.spawn)
    try:
        yield peer
    finally:
        peer.close()
        await port.close()
        await tasks.close()


async def test_answers_come_in_any_order_and_failures_as_what_they_are(tmp_path: Path) -> None:
    first = asyncio.Event()

    async def slow(_: Document) -> Document:
        await first.wait()
        return {"slow": True}

    async def quick(question: Document) -> Document:
        first.set()
        return {"told": question["told"]}

    async def fails(_: Document) -> Document:
        raise Throttled("not now")

    async with asked(tmp_path / "socket", {"slow": slow, "quick": quick, "fails": fails}) as peer:
        assert (tmp_path / "socket").stat().st_mode & 0o777 == 0o600
        async with asyncio.TaskGroup() as group:
            slowly = group.create_task(peer.call({"kind": "slow"}))
            assert (await peer.call({"kind": "quick", "told": 7}))["told"] == 7
        assert slowly.result()["slow"]
        with pytest.raises(Throttled, match="not now"):
            await peer.call({"kind": "fails"})
        assert await peer.call_until_acked({"kind": "fence", "names": []}, 5.0), "one that has no parts yet says yes"


async def test_nobody_there(tmp_path: Path) -> None:
    tasks = TaskRegistry()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
    with pytest.raises(PeerUnavailable) as gone:
        await connect(tmp_path / "socket")
    assert not isinstance(gone.value, NotListening), "one that lives may have had its socket removed"
    (tmp_path / "socket").touch()
    with pytest.raises(NotListening):
        await connect(tmp_path / "socket")
    with pytest.raises(PeerUnavailable):
        await peer.call({"kind": "fence"})
    assert await peer.call_until_acked({"kind": "fence"}, 5.0) is None
    peer.notify({"kind": "write_ended"})
    await tasks.idle()


_MUTE = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print("listening", flush=True)
taken = [listening.accept() for _ in range(1000)]
"""


async def test_one_that_listens_and_never_answers_is_killed(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MUTE, str(tmp_path / "socket"), stdout=asyncio.subprocess.PIPE
    )
    tasks = TaskRegistry()
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)
        assert await peer.call_until_acked({"kind": "fence"}, 0.2) is None
        assert await process.wait() == -signal.SIGKILL
        peer.close()
        await tasks.idle()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_bytes_are_cut_and_end_with_what_went_wrong(tmp_path: Path) -> None:
    """Over a real socket, larger than any buffer on the way."""
    body = os.urandom(3 * SEND_PAYLOAD + 17)

    class Answering:
        async def stream(self, kind: str, question: Document, out: Channel) -> None:
            await out.send({"kind": kind})
            await out.send_bytes(memoryview(body))
            if question.get("fails"):
                raise VersionChanged("gone meanwhile")
            await out.send_end()

        async def died(self, _: object) -> None: ...

    port, tasks = RpcServer(tmp_path / "socket", {}), TaskRegistry()
    port.service = Answering()  # type: ignore[assignment] # as much of it as is asked
    await port.start()
    peer = Peer(1, tmp_path / "socket", 0, tasks.spawn)

    async def gathered(question: Document, length: int) -> bytes:
        _, coming = await peer.stream(question)
        counted, target, came = coming.body(length), memoryview(bytearray(SEND_PAYLOAD - 1000)), b""
        try:
            while read := await counted.read_into(target):
                came += target[:read]
        finally:
            counted.close()
        return came

    try:
        assert await gathered({"kind": "read"}, len(body)) == body
        failures: list[tuple[Document, int, type[ForebayError]]] = [
            ({"kind": "read", "fails": True}, len(body), VersionChanged),
            ({"kind": "read"}, len(body) + 1, OriginBroken),
            ({"kind": "read"}, len(body) - 1, OriginBroken),
        ]
        for question, length, failure in failures:
            with pytest.raises(failure):
                await gathered(question, length)
        with pytest.raises(PeerUnavailable):
            await peer.stream({"kind": "nonsense"})
    finally:
        await port.close()
        await tasks.close()
