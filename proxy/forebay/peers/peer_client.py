"""Another worker of the node: one lasting connection for short questions, and one of their own for answers with bytes.

The lasting connection, the *link*, also tells either end that the other has died: what a worker had begun and not
settled is doubted by those who had a link from it.

Three ways to ask:

    call                once; PeerUnavailable if the worker is not there or goes
    call_until_acked    until it has answered or nobody listens at its socket; a worker that hangs is killed. After it,
                        that worker has done what was asked, or knows nothing.
    stream              on a connection of its own, whose answer goes on as bytes; PeerUnavailable also if the worker is
                        silent (see peers.liveness)
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from forebay.core.errors import OriginBroken, OriginError
from forebay.origin.read_body import ReadBody
from forebay.peers.frames import Channel, Document, PeerUnavailable, Spawn
from forebay.peers.liveness import Heartbeat
from forebay.peers.peer_codec import decode_failure
from forebay.peers.unix_socket import NotListening, ProcessHandle, connect

FENCE_TIMEOUT: Final = 5.0
"""Seconds that a worker may take to raise a fence, which costs it microseconds, or to answer a ping while it does
something slow. One that takes longer is killed: it must not come back to its senses and answer with what it believed
before."""
RECONNECT_DELAY: Final = 0.02
"""Seconds before a worker that hung up is tried again: it is on its way out, or was restarted."""
SLOW_PING_INTERVAL: Final = 1.0
"""Seconds between two pings of a worker that is at something slow."""
MAX_TIMER_LAG: Final = 1.0
"""Seconds after its time at which a bound of ours may go off; beyond that it is we who were stopped."""

_log = logging.getLogger(__name__)


class Peer:
    """See the module. `worker`: its number; `me`: ours."""

    def __init__(self, worker: int, path: Path, caller: int, spawn: Spawn) -> None:
        self.worker = worker
        self._path = path
        self._caller = caller
        self._spawn = spawn
        self._link: _Link | None = None
        self._link_lock = asyncio.Lock()
        self._heartbeat = Heartbeat(self.ping, spawn, f"worker {worker}")

    def __repr__(self) -> str:
        return (
            f"<Peer {self.worker} {'linked' if self._link is not None and not self._link.is_closed else 'not linked'}>"
        )

    async def call(self, document: Document) -> Document:
        """Ask once. Raises PeerUnavailable, and what the other failed with."""
        return await (await self._connected()).call(document)

    def notify(self, document: Document) -> None:
        """Tell, and want no answer; nobody may be there to hear it."""
        if self._link is not None and not self._link.is_closed:
            with contextlib.suppress(PeerUnavailable):
                self._link.notify(document)
        else:
            self._spawn(self._notify(document), f"tell worker {self.worker}")

    async def _notify(self, document: Document) -> None:
        with contextlib.suppress(PeerUnavailable):
            (await self._connected()).notify(document)

    async def ping(self) -> None:
        """Returns when its loop has turned. Raises PeerUnavailable."""
        await self.call({"kind": "ping"})

    async def call_until_acked(self, document: Document, deadline: float, *, slow: bool = False) -> str | None:
        """Ask until it is answered, and name the process that did; None: nobody listens. See the module.

        A worker hangs that takes longer than `deadline` for an answer; where what is asked may be `slow`, for one to a
        ping.
        """
        while True:
            try:
                return await self._call_acked(document, deadline, slow=slow)
            except NotListening:
                return None
            except PeerUnavailable:
                await asyncio.sleep(RECONNECT_DELAY)

    async def _call_acked(self, document: Document, deadline: float, *, slow: bool) -> str:
        """What the process that answered calls itself. Raises PeerUnavailable, also when it had to be killed."""
        async with self._deadline(deadline):
            link = await self._connected()
            if not slow:
                await link.call(document)
                return link.instance_id
        asked = link.start_call(document)
        try:
            while not (await asyncio.wait([asked], timeout=SLOW_PING_INTERVAL))[0]:
                async with self._deadline(deadline):
                    await link.call({"kind": "ping"})
            raise_for_failure(await asked)
            return link.instance_id
        finally:
            asked.cancel()

    @contextlib.asynccontextmanager
    async def _deadline(self, deadline: float) -> AsyncIterator[None]:
        """What is awaited inside the worker must answer within `deadline`. Raises PeerUnavailable when it did not."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(deadline):
                yield
        except TimeoutError:
            # Late ourselves, we can't tell whether the other was: it is asked again.
            if loop.time() - began < deadline + MAX_TIMER_LAG and self._link is not None:
                self._link.kill(f"worker {self.worker} has not answered for {deadline:g} s")
            raise PeerUnavailable(f"worker {self.worker} did not answer") from None

    async def stream(self, document: Document) -> tuple[Document, "ResponseStream"]:
        """Ask for bytes: what comes before them, and they. Raises PeerUnavailable, and what the other failed with."""
        if self._heartbeat.is_silent:
            raise PeerUnavailable(f"worker {self.worker} does not answer")
        channel = await connect(self._path)
        self._heartbeat.watch(channel)
        try:
            await channel.send(document)
            answer = raise_for_failure(await channel.receive_document())
        except BaseException:
            self._heartbeat.unwatch(channel)
            channel.abort()
            raise
        return answer, ResponseStream(channel, self._heartbeat)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    async def _connected(self) -> "_Link":
        async with self._link_lock:
            if self._link is None or self._link.is_closed:
                self._link = _Link(await connect(self._path))
                self._spawn(self._link.run(), f"link to worker {self.worker}")
            link = self._link
        if not link.instance_id:
            answer = await link.call({"kind": "link", "from": self._caller})
            link.instance_id = str(answer.get("process"))
        return link


class _Link:
    """The lasting connection while it lasts. Questions are numbered; answers come in any order."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._handle = ProcessHandle(channel.pid)
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Document]] = {}
        self.is_closed = False
        self._killed = False
        self.instance_id = ""
        """What the process calls itself: another one after a restart, whatever its number."""

    async def call(self, document: Document) -> Document:
        return raise_for_failure(await self.start_call(document))

    def start_call(self, document: Document) -> "asyncio.Future[Document]":
        """Ask; the answer is still to be `told`. Raises PeerUnavailable."""
        if self.is_closed:
            raise PeerUnavailable("the connection ended")
        number = next(self._numbers)
        waiting: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._channel.write({**document, "id": number})
        self._waiting[number] = waiting
        waiting.add_done_callback(lambda _: self._waiting.pop(number, None))
        return waiting

    def notify(self, document: Document) -> None:
        self._channel.write(document)

    async def run(self) -> None:
        try:
            while True:
                answer = await self._channel.receive_document()
                number = answer.get("id")
                waiting = self._waiting.get(number) if isinstance(number, int) else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except PeerUnavailable:
            pass
        finally:
            self.close()

    def kill(self, why: str) -> None:
        if not self._killed:  # many may have waited
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


class ResponseStream:
    """Frames that follow an answer. Implements forebay.origin.read_body.Pieces."""

    def __init__(self, channel: Channel, heartbeat: Heartbeat) -> None:
        self._channel = channel
        self._heartbeat = heartbeat
        self._left = memoryview(b"")
        """Of a frame that was larger than what was asked for."""

    def read_if_buffered(self, target: memoryview) -> bool:  # frames are waited for
        return False

    async def read_into(self, target: memoryview) -> int:
        """The bytes that have come into the front of `target`: how many; 0 at the end. Raises what the other worker
        failed with, OriginBroken if it went away."""
        left = self._left or memoryview(await self._next())
        taken = min(len(left), len(target))
        target[:taken] = left[:taken]
        self._left = left[taken:]
        return taken

    async def _next(self) -> bytes:
        try:
            frame = await self._channel.receive()
        except PeerUnavailable as gone:
            raise OriginBroken(f"the worker that was asked went away: {gone}") from None
        if frame.kind == "bytes":
            return frame.payload
        if frame.kind == "document":
            raise decode_failure(frame.document) or OriginBroken("a document among bytes")
        self.close()
        return b""

    async def receive_document(self) -> Document | None:
        """The next document; None at the end. Raises PeerUnavailable, and what the other failed with."""
        frame = await self._channel.receive()
        if frame.kind == "end":
            self.close()
            return None
        return raise_for_failure(frame.document)

    def close(self) -> None:
        self._heartbeat.unwatch(self._channel)
        self._channel.close()

    def body(self, length: int) -> ReadBody:
        """The bytes as a body of an answer: counted, and not asked for again."""
        return ReadBody(self, length, _no_resumption)


def raise_for_failure(answer: Document) -> Document:
    """An answer, if it tells of no failure; raises that if it does."""
    failure = decode_failure(answer)
    if failure is not None:
        raise failure
    return answer


async def _no_resumption(failure: OriginError) -> "ResponseStream":
    raise failure
