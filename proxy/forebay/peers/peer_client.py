"""The peer client: calls another worker of the node.

    call                once, over the link; PeerUnavailable if the worker is not there or ends
    notify              over the link, without a response
    call_until_acked until it has answered or no process listens at its socket; a worker that hangs is killed.
    Afterwards that worker has done it, or has no state.
    openings            over a connection of their own, without a task (peers.relayed_openings)
    stream              on a connection of its own, whose response goes on as a stream; PeerUnavailable also if the
                        worker is silent (peers.liveness). A connection whose response was read to its last byte carries
                        another call later.

The link is one lasting connection. It also shows either end that the other has died: the writes that a worker had under
way are in doubt for every worker that it had a link to.
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Final

from forebay.core.errors import PeerNotListening, PeerUnavailable
from forebay.peers.frames import Channel, Document, Spawn
from forebay.peers.liveness import Heartbeat
from forebay.peers.relayed_openings import RelayedOpenings
from forebay.peers.response_stream import IdleChannel, ResponseStream, raise_for_failure
from forebay.peers.unix_socket import ProcessHandle, connect

FENCE_TIMEOUT: Final = 5.0
"""Seconds that a worker may take to raise a fence, which costs it microseconds, or to answer a ping while it does
something slow. One that takes longer is killed: it must not resume and answer from what it knew before."""
RECONNECT_DELAY: Final = 0.02
"""Seconds before a worker that hung up is tried again: it is ending, or was restarted."""
SLOW_PING_INTERVAL: Final = 1.0
"""Seconds between two pings of a worker that does something slow."""
MAX_TIMER_LAG: Final = 1.0
"""Seconds by which a timer of ours may be late. Beyond that it is this worker that was stopped."""

MAX_IDLE: Final = 64
"""Connections without a call that are kept for the next ones."""

_log = logging.getLogger(__name__)


class Peer:
    """One other worker. `worker`: its number; `caller`: this worker's."""

    def __init__(self, worker: int, path: Path, caller: int, spawn: Spawn) -> None:
        self.worker = worker
        self._path = path
        self._caller = caller
        self._spawn = spawn
        self._link: _Link | None = None
        self._link_lock = asyncio.Lock()
        self._idle: list[IdleChannel] = []
        self._heartbeat = Heartbeat(self.ping, spawn, f"worker {worker}")
        self.openings = RelayedOpenings(partial(connect, path), self._heartbeat, spawn)

    def __repr__(self) -> str:
        is_linked = self._link is not None and not self._link.is_closed
        return f"<Peer {self.worker} {'linked' if is_linked else 'not linked'}>"

    async def call(self, request: Document) -> Document:
        """Calls once, and returns the response. Raises PeerUnavailable, and the error of the method."""
        return await (await self._connected()).call(request)

    def notify(self, request: Document) -> None:
        """Calls without a response. Does nothing if the worker is not there."""
        if self._link is not None and not self._link.is_closed:
            with contextlib.suppress(PeerUnavailable):
                self._link.notify(request)
        else:
            self._spawn(self._notify(request), f"notify worker {self.worker}")

    async def _notify(self, request: Document) -> None:
        with contextlib.suppress(PeerUnavailable):
            (await self._connected()).notify(request)

    async def ping(self) -> None:
        """Returns when the worker's loop has turned. Raises PeerUnavailable."""
        await self.call({"kind": "ping"})

    async def call_until_acked(self, request: Document, deadline: float, *, slow: bool = False) -> str | None:
        """Calls until the worker has answered. Returns the instance id of the process that did; None: nobody listens.

        A worker hangs, and is killed, that takes longer than `deadline` seconds to answer; of a method that may be
        `slow`, longer than that to answer a ping.
        """
        acked = await self._call_until_acked(request, deadline, slow=slow)
        return acked[0] if acked is not None else None

    async def answer_until_acked(self, request: Document, deadline: float) -> Document | None:
        """Calls as `call_until_acked` does, and returns the response; None: no process listens."""
        acked = await self._call_until_acked(request, deadline, slow=False)
        return acked[1] if acked is not None else None

    async def _call_until_acked(self, request: Document, deadline: float, *, slow: bool) -> tuple[str, Document] | None:
        while True:
            try:
                return await self._call_acked(request, deadline, slow=slow)
            except PeerNotListening:
                return None
            except PeerUnavailable:
                await asyncio.sleep(RECONNECT_DELAY)

    async def _call_acked(self, request: Document, deadline: float, *, slow: bool) -> tuple[str, Document]:
        """Calls once and returns the instance id and the response. Raises PeerUnavailable, also when the worker had to
        be killed."""
        async with self._kill_after(deadline):
            link = await self._connected()
            if not slow:
                return link.instance_id, await link.call(request)
        response = link.start_call(request)
        try:
            while not (await asyncio.wait([response], timeout=SLOW_PING_INTERVAL))[0]:
                async with self._kill_after(deadline):
                    await link.call({"kind": "ping"})
            return link.instance_id, raise_for_failure(await response)
        finally:
            response.cancel()

    @contextlib.asynccontextmanager
    async def _kill_after(self, deadline: float) -> AsyncIterator[None]:
        """Kills the worker if the body takes longer than `deadline` seconds. Raises PeerUnavailable then."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            async with asyncio.timeout(deadline):
                yield
        except TimeoutError:
            # If this worker's own timer is late, nothing is known of the other: it is called again.
            if loop.time() - started < deadline + MAX_TIMER_LAG and self._link is not None:
                self._link.kill(f"worker {self.worker} has not answered for {deadline:g} s")
            raise PeerUnavailable(f"worker {self.worker} did not answer") from None

    async def stream(self, request: Document) -> tuple[Document, ResponseStream]:
        """Calls a streaming method. Returns its first document, and the stream. Raises PeerUnavailable, and the error
        of the method."""
        if self._heartbeat.is_silent:
            raise PeerUnavailable(f"worker {self.worker} does not answer")
        while self._idle:
            idle = self._idle.pop()
            if idle.channel.is_closed:
                idle.channel.close()
                continue
            with contextlib.suppress(PeerUnavailable):  # it ends just now: the worker has not read the call
                return await self._stream_over(idle, request)
            if self._heartbeat.is_silent:
                raise PeerUnavailable(f"worker {self.worker} does not answer")
        return await self._stream_over(IdleChannel(await connect(self._path)), request)

    async def _stream_over(self, idle: IdleChannel, request: Document) -> tuple[Document, ResponseStream]:
        channel = idle.channel
        self._heartbeat.watch(channel)
        try:
            await channel.send(request)
            if idle.awaits_end and (await channel.receive()).kind != "end":
                raise PeerUnavailable("a response that does not end")
            frame = await channel.receive()
            if frame.kind not in {"document", "whole"}:
                raise PeerUnavailable(f"{frame.kind} in place of a document")
            response = raise_for_failure(frame.document)
        except BaseException:
            self._heartbeat.unwatch(channel)
            channel.abort()
            raise
        stream = ResponseStream(channel, self._heartbeat, self._keep)
        if frame.kind == "whole":
            stream.complete(frame.payload)
        return response, stream

    def _keep(self, idle: IdleChannel) -> None:
        if len(self._idle) < MAX_IDLE and not idle.channel.is_closed:
            self._idle.append(idle)
        else:
            idle.channel.close()

    def close(self) -> None:
        """Closes the link, the connections without a call, and that for openings."""
        self.openings.close()
        if self._link is not None:
            self._link.close()
        while self._idle:
            self._idle.pop().channel.close()

    async def _connected(self) -> "_Link":
        async with self._link_lock:
            if self._link is None or self._link.is_closed:
                self._link = _Link(await connect(self._path))
                self._spawn(self._link.run(), f"link to worker {self.worker}")
            link = self._link
        if not link.instance_id:
            response = await link.call({"kind": "link", "from": self._caller})
            link.instance_id = str(response.get("process"))
        return link


class _Link:
    """The lasting connection. Calls are numbered; responses come in any order."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._handle = ProcessHandle(channel.pid)
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Document]] = {}
        self.is_closed = False
        self._killed = False
        self.instance_id = ""
        """The id of the process at the other end. It changes with a restart; the worker's number does not."""

    async def call(self, request: Document) -> Document:
        return raise_for_failure(await self.start_call(request))

    def start_call(self, request: Document) -> "asyncio.Future[Document]":
        """Returns a future of the response, which may be a failure. Raises PeerUnavailable."""
        if self.is_closed:
            raise PeerUnavailable("the connection ended")
        number = next(self._numbers)
        waiting: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._channel.write({**request, "id": number})
        self._waiting[number] = waiting
        waiting.add_done_callback(lambda _: self._waiting.pop(number, None))
        return waiting

    def notify(self, request: Document) -> None:
        self._channel.write(request)

    async def run(self) -> None:
        try:
            while True:
                response = await self._channel.receive_document()
                number = response.pop("id", None)
                waiting = self._waiting.get(number) if isinstance(number, int) else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(response)
        except PeerUnavailable:
            pass
        finally:
            self.close()

    def kill(self, why: str) -> None:
        if not self._killed:  # several calls may have timed out
            self._killed = True
            _log.error("%s: it is killed", why)
        self._handle.kill()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._channel.close()
            self._handle.release()
            for waiting in list(self._waiting.values()):
                if not waiting.done():
                    waiting.set_exception(PeerUnavailable("the connection ended"))
