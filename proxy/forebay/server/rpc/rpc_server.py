"""The RPC server: the Unix socket on which the other workers and the supervisor call a worker.

The socket is in a directory of mode 0700; the kernel is asked who connects, and another user is disconnected. The first
frame says what the connection is for:

    link                    lasting: numbered calls, responses in any order        (forebay.peers.peer_client)
    openings                lasting: requests and answers as opening frames        (forebay.peers.relayed_openings)
    a streaming method      one call, and a response that goes on as a stream      (rpc_methods); then perhaps
                            another one

A worker listens here before it reads anything of the shared tier: see write.invalidation. Until its service is set it
knows nothing, so it acknowledges a fence at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from forebay.core.errors import ForebayError, OriginBroken, PeerUnavailable
from forebay.core.interruption import Interruption
from forebay.core.sweep import Sweep
from forebay.core.task_registry import TaskRegistry
from forebay.peers.byte_stream import ByteStream
from forebay.peers.frames import Channel, Document
from forebay.peers.peer_codec import encode_failure
from forebay.peers.relayed_openings import KIND
from forebay.peers.unix_socket import new_instance_id, temporary_socket_path, verify_same_user
from forebay.server.rpc.peer_service import PeerService
from forebay.server.rpc.rpc_methods import OpenWrites

RpcMethod: TypeAlias = Callable[[Document], Awaitable[Document]]
"""A method for the supervisor."""

LISTEN_BACKLOG: Final = 1024
WATCHED_AFTER: Final = 0.1
"""Seconds that a streaming method takes after which its caller is watched: it may have hung up. Most take far less, and
a task for each would cost more than the method."""
_NOT_STARTED: Final[Document] = {"writes": []}
"""The response of a worker without a service, to any method."""

_log = logging.getLogger(__name__)


class RpcServer:
    """Listens on one socket. `control`: the methods for the supervisor. `service` is set once the worker has parts."""

    def __init__(self, path: Path, control: Mapping[str, RpcMethod]) -> None:
        self.instance_id = new_instance_id()
        """Names this process among all that ever had its worker number."""
        self.service: PeerService | None = None
        self._path = path
        self._control = control
        self._tasks = TaskRegistry()
        self._channels: set[Channel] = set()
        self._server: asyncio.Server | None = None
        self._is_closed = False

    async def start(self) -> None:
        """Starts to listen."""
        sweep = Sweep(WATCHED_AFTER, asyncio.get_running_loop())

        def on_connected(stream: ByteStream) -> None:
            channel = Channel(stream, 0)
            if self._is_closed:  # it was accepted before
                channel.close()
                return
            self._channels.add(channel)  # here: a task that is cancelled before it begins would close nothing
            self._tasks.spawn(self._serve(channel, stream, sweep), "RPC connection")

        # Replaces what was there in one step: a missing path proves nothing (see PeerNotListening).
        path = temporary_socket_path(self._path, self.instance_id)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: ByteStream(on_connected), path, backlog=LISTEN_BACKLOG)
        path.chmod(0o600)
        path.rename(self._path)

    async def close(self) -> None:
        """Closes every connection and stops to listen."""
        self._is_closed = True
        if self._server is not None:
            self._server.close()
        for channel in self._channels:
            channel.close()
        await self._tasks.close()

    async def _serve(self, channel: Channel, stream: ByteStream, sweep: Sweep) -> None:
        try:
            verify_same_user(stream.transport.get_extra_info("socket"))
            request = await channel.receive_document()
            if request.get("kind") == "link":
                await self._serve_link(channel, request)
                return
            if request.get("kind") == KIND:
                await self._serve_openings(channel)
                return
            while True:
                kind = request.get("kind")
                if self.service is not None and kind not in self.service.streaming:
                    raise PeerUnavailable(f"unknown method: {kind}")
                if not await self._serve_stream(str(kind), request, channel, sweep):
                    return
                request = await channel.receive_document()
        except PeerUnavailable as gone:
            _log.debug("a connection of another process ended: %s", gone)
        finally:
            self._channels.discard(channel)
            channel.close()

    async def _serve_stream(self, kind: str, request: Document, channel: Channel, sweep: Sweep) -> bool:
        """Runs a streaming method until it ends, or its caller hangs up. Returns whether another call may follow."""
        call = StreamingCall(channel, self._tasks, sweep.timers.time() + WATCHED_AFTER)
        sweep.add(call)
        try:
            with call.interruption:
                return await self._stream(kind, request, channel)
        except TimeoutError:  # of the interruption: a method's own is a failure, which is sent
            return False
        finally:
            sweep.remove(call)
            await call.end()

    async def _stream(self, kind: str, request: Document, channel: Channel) -> bool:
        """Returns whether the response is complete, or a failure."""
        if self.service is None:
            return False
        try:
            await self.service.stream(kind, request, channel)
        except PeerUnavailable:
            return False
        except Exception as failure:
            known = failure if isinstance(failure, ForebayError) else None
            if known is None:
                _log.exception("%s failed", kind)
            with contextlib.suppress(PeerUnavailable):
                await channel.send(encode_failure(known or OriginBroken("a defect in another worker")))
        return True

    async def _serve_openings(self, channel: Channel) -> None:
        if self.service is None or self.service.answer_openings is None:
            return
        answers = self.service.answer_openings()
        await channel.send({})
        channel.hand_over(answers)
        await answers.ended

    async def _serve_link(self, channel: Channel, first: Document) -> None:
        request, writes = first, OpenWrites()
        try:
            while True:
                kind = str(request.get("kind"))
                calling = self._call(kind, request, writes, channel)
                if self._is_ordered(kind):
                    await calling
                else:
                    self._tasks.spawn(calling, f"call {kind}")
                request = await channel.receive_document()
        finally:
            if self.service is not None:
                await self.service.writes.caller_died(writes)

    def _is_ordered(self, kind: str) -> bool:
        if kind in self._control:
            return False
        return self.service is None or kind in {"link", "ping"} or kind in self.service.ordered

    async def _call(self, kind: str, request: Document, writes: OpenWrites, channel: Channel) -> None:
        try:
            if kind == "link":
                response: Document = {"process": self.instance_id}
            elif kind == "ping":
                response = {}
            elif kind in self._control:
                response = await self._control[kind](request)
            elif self.service is not None:
                response = await self.service.call(kind, request, writes)
            else:
                response = _NOT_STARTED
        except PeerUnavailable as unreadable:
            _log.error("%s was not understood: %s", kind, unreadable)
            channel.close()
            return
        except ForebayError as failure:
            response = encode_failure(failure)
        except Exception as defect:
            _log.exception("%s failed", kind)
            response = encode_failure(OriginBroken(f"{type(defect).__name__} in another worker"))
        if (number := request.get("id")) is not None:
            with contextlib.suppress(PeerUnavailable):
                channel.write(response | {"id": number})


class StreamingCall:
    """A streaming call under way. A member of the sweep, which has its caller watched once the call is a long one."""

    __slots__ = ("_channel", "_due", "_tasks", "_watching", "interruption")

    def __init__(self, channel: Channel, tasks: TaskRegistry, due: float) -> None:
        self._channel = channel
        self._tasks = tasks
        self._due = due
        self._watching: asyncio.Task[None] | None = None
        self.interruption = Interruption()

    async def end(self) -> None:
        """Stops to watch: the connection may be read again."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def postpone(self, seconds: float) -> None:
        """See forebay.core.sweep.Examined."""
        self._due += seconds

    def examine(self, now: float) -> None:
        """See forebay.core.sweep.Examined."""
        if self._watching is None and now >= self._due:
            self._watching = self._tasks.spawn(self._watch(), "watch")

    async def _watch(self) -> None:
        if await self._channel.wait_closed():  # else the caller has all bytes, and has sent its next call
            self.interruption.interrupt()
