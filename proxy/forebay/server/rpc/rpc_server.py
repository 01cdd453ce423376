"""The socket that a worker is asked on by the others and by the supervisor.

It lies in a directory of mode 0700 with an unguessable name; whoever connects is asked of the kernel, and hung up on if
it is not this user. The first frame says what a connection is for:

    link       lasting; questions with numbers, answers in any order       (forebay.peers.peer_client)
    others     one question, and an answer that goes on as bytes           (server.rpc.peer_service.STREAMED)

A worker listens here before it reads anything of the shared tier: see write.invalidation. Until it has its parts it
knows nothing, so a fence is raised by saying so.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from forebay.core.errors import ForebayError, OriginBroken
from forebay.core.task_registry import TaskRegistry
from forebay.peers.frames import Channel, Document, PeerUnavailable
from forebay.peers.peer_codec import encode_failure
from forebay.peers.socket_directory import new_instance_id, temporary_socket_path
from forebay.peers.unix_socket import READ_BUFFER, verify_same_user
from forebay.server.rpc.peer_service import STREAMED, OpenWrites, PeerService

RpcMethod: TypeAlias = Callable[[Document], Awaitable[Document]]

LISTEN_BACKLOG: Final = 1024
_IN_ORDER: Final = frozenset({"link", "ping", "fence", "ended", "learnt", "gone", "doubts", "install", "part", "wrote"})
"""Answered in the order they come: each is over at once."""
_NOT_STARTED: Final[Document] = {"doubts": []}
"""What one that is beginning has to tell, whatever it is asked."""

_log = logging.getLogger(__name__)


class RpcServer:
    """See the module. `control`: what the supervisor may ask. `peering` is set when there are parts to answer from."""

    def __init__(self, path: Path, control: Mapping[str, RpcMethod]) -> None:
        self.instance_id = new_instance_id()
        """What this process calls itself: never what one before it did."""
        self.service: PeerService | None = None
        self._path = path
        self._control = control
        self._tasks = TaskRegistry()
        self._channels: set[Channel] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._tasks.spawn(self._serve(reader, writer), "asked by another process")

        # In one step in the place of what was there: a path that is not there proves nothing (see NotListening).
        fresh = temporary_socket_path(self._path, self.instance_id)
        self._server = await asyncio.start_unix_server(connected, fresh, backlog=LISTEN_BACKLOG, limit=READ_BUFFER)
        fresh.chmod(0o600)
        fresh.rename(self._path)

    async def close(self) -> None:
        """Nobody is answered any more."""
        if self._server is not None:
            self._server.close()
        for channel in self._channels:
            channel.close()
        await self._tasks.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer, 0)
        self._channels.add(channel)
        try:
            verify_same_user(writer.get_extra_info("socket"))
            question = await channel.receive_document()
            kind = question.get("kind")
            if kind == "link":
                await self._serve_link(channel, question)
            elif kind in STREAMED:
                await self._serve_stream(str(kind), question, channel)
            else:
                raise PeerUnavailable(f"no such question: {kind}")
        except PeerUnavailable as gone:
            _log.debug("a connection of another process ended: %s", gone)
        finally:
            self._channels.discard(channel)
            channel.close()

    async def _serve_stream(self, kind: str, question: Document, channel: Channel) -> None:
        """Until it is answered, or nobody is there to take the answer."""
        answering = self._tasks.spawn(self._stream(kind, question, channel), f"answer to {kind}")
        watching = self._tasks.spawn(channel.wait_closed(), "watch")
        try:
            await asyncio.wait([answering, watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (answering, watching):
                task.cancel()
            await asyncio.wait([answering, watching])

    async def _stream(self, kind: str, question: Document, channel: Channel) -> None:
        if self.service is None:
            return
        try:
            await self.service.stream(kind, question, channel)
        except PeerUnavailable:
            return
        except Exception as failure:
            known = failure if isinstance(failure, ForebayError) else None
            if known is None:
                _log.exception("%s failed", kind)
            with contextlib.suppress(PeerUnavailable):
                await channel.send(encode_failure(known or OriginBroken("a defect in another worker")))

    async def _serve_link(self, channel: Channel, first: Document) -> None:
        question, writes = first, OpenWrites()
        try:
            while True:
                answering = self._call(str(question.get("kind")), question, writes, channel)
                if question.get("kind") in _IN_ORDER:
                    await answering
                else:
                    self._tasks.spawn(answering, f"answer to {question.get('kind')}")
                question = await channel.receive_document()
        finally:
            if self.service is not None:
                await self.service.caller_died(writes)

    async def _call(self, kind: str, question: Document, writes: OpenWrites, channel: Channel) -> None:
        try:
            if kind == "link":
                answer: Document = {"process": self.instance_id}
            elif kind == "ping":
                answer = {}
            elif kind in self._control:
                answer = await self._control[kind](question)
            elif self.service is not None:
                answer = await self.service.call(kind, question, writes)
            else:
                answer = _NOT_STARTED
        except PeerUnavailable as gone:
            _log.error("%s was not understood: %s", kind, gone)
            channel.close()
            return
        except ForebayError as failure:
            answer = encode_failure(failure)
        except Exception as defect:
            _log.exception("%s failed", kind)
            answer = encode_failure(OriginBroken(f"{type(defect).__name__} in another worker"))
        if (number := question.get("id")) is not None:
            with contextlib.suppress(PeerUnavailable):
                channel.write(answer | {"id": number})
