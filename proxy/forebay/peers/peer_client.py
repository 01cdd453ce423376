"""Another worker of the node: one lasting connection for short questions, and one of their own for answers with bytes.

The lasting connection, the *link*, also tells either end that the other has died: what a worker had begun and not
settled is doubted by those who had a link from it.

Three ways to ask:

    call      once; PeerGone if the worker is not there or goes
    insist    until it has answered or nobody listens at its socket; a worker that hangs is killed. After it, that
              worker has done what was asked, or knows nothing.
    ask       on a connection of its own, whose answer goes on as bytes; PeerGone also if the worker is silent (see
              peers.liveness)
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
from forebay.peers.frames import Channel, Document, PeerGone, Spawn
from forebay.peers.liveness import Pulse
from forebay.peers.peer_codec import failure_of
from forebay.peers.unix_socket import Hold, NotListening, connect

FENCE_PATIENCE: Final = 5.0
"""Seconds that a worker may take to raise a fence, which costs it microseconds, or to answer a ping while it does
something slow. One that takes longer is killed: it must not come back to its senses and answer with what it believed
before."""
LOOK_AGAIN: Final = 0.02
"""Seconds before a worker that hung up is tried again: it is on its way out, or was restarted."""
PING_EVERY: Final = 1.0
"""Seconds between two pings of a worker that is at something slow."""
LATE: Final = 1.0
"""Seconds after its time at which a bound of ours may go off; beyond that it is we who were stopped."""

_log = logging.getLogger(__name__)


class Peer:
    """See the module. `worker`: its number; `me`: ours."""

    def __init__(self, worker: int, path: Path, me: int, spawn: Spawn) -> None:
        self.worker = worker
        self._path = path
        self._me = me
        self._spawn = spawn
        self._link: _Link | None = None
        self._linking = asyncio.Lock()
        self._pulse = Pulse(self.ping, spawn, f"worker {worker}")

    def __repr__(self) -> str:
        return f"<Peer {self.worker} {'linked' if self._link is not None and not self._link.closed else 'not linked'}>"

    async def call(self, document: Document) -> Document:
        """Ask once. Raises PeerGone, and what the other failed with."""
        return await (await self._linked()).call(document)

    def cast(self, document: Document) -> None:
        """Tell, and want no answer; nobody may be there to hear it."""
        if self._link is not None and not self._link.closed:
            with contextlib.suppress(PeerGone):
                self._link.cast(document)
        else:
            self._spawn(self._cast(document), f"tell worker {self.worker}")

    async def _cast(self, document: Document) -> None:
        with contextlib.suppress(PeerGone):
            (await self._linked()).cast(document)

    async def ping(self) -> None:
        """Returns when its loop has turned. Raises PeerGone."""
        await self.call({"kind": "ping"})

    async def insist(self, document: Document, patience: float, *, slow: bool = False) -> str | None:
        """Ask until it is answered, and name the process that did; None: nobody listens. See the module.

        A worker hangs that takes longer than `patience` for an answer; where what is asked may be `slow`, for one to a
        ping.
        """
        while True:
            try:
                return await self._insisted(document, patience, slow=slow)
            except NotListening:
                return None
            except PeerGone:
                await asyncio.sleep(LOOK_AGAIN)

    async def _insisted(self, document: Document, patience: float, *, slow: bool) -> str:
        """What the process that answered calls itself. Raises PeerGone, also when it had to be killed."""
        async with self._or_killed(patience):
            link = await self._linked()
            if not slow:
                await link.call(document)
                return link.process
        asked = link.post(document)
        try:
            while not (await asyncio.wait([asked], timeout=PING_EVERY))[0]:
                async with self._or_killed(patience):
                    await link.call({"kind": "ping"})
            told(await asked)
            return link.process
        finally:
            asked.cancel()

    @contextlib.asynccontextmanager
    async def _or_killed(self, patience: float) -> AsyncIterator[None]:
        """What is awaited inside the worker must answer within `patience`. Raises PeerGone when it did not."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(patience):
                yield
        except TimeoutError:
            # Late ourselves, we can't tell whether the other was: it is asked again.
            if loop.time() - began < patience + LATE and self._link is not None:
                self._link.kill(f"worker {self.worker} has not answered for {patience:g} s")
            raise PeerGone(f"worker {self.worker} did not answer") from None

    async def ask(self, document: Document) -> tuple[Document, "Coming"]:
        """Ask for bytes: what comes before them, and they. Raises PeerGone, and what the other failed with."""
        if self._pulse.silent:
            raise PeerGone(f"worker {self.worker} does not answer")
        channel = await connect(self._path)
        self._pulse.watch(channel)
        try:
            await channel.send(document)
            answer = told(await channel.document())
        except BaseException:
            self._pulse.unwatch(channel)
            channel.abort()
            raise
        return answer, Coming(channel, self._pulse)

    def close(self) -> None:
        if self._link is not None:
            self._link.close()

    async def _linked(self) -> "_Link":
        async with self._linking:
            if self._link is None or self._link.closed:
                self._link = _Link(await connect(self._path))
                self._spawn(self._link.run(), f"link to worker {self.worker}")
            link = self._link
        if not link.process:
            answer = await link.call({"kind": "link", "from": self._me})
            link.process = str(answer.get("process"))
        return link


class _Link:
    """The lasting connection while it lasts. Questions are numbered; answers come in any order."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._hold = Hold(channel.process)
        self._numbers = itertools.count()
        self._waiting: dict[int, asyncio.Future[Document]] = {}
        self.closed = False
        self._killed = False
        self.process = ""
        """What the process calls itself: another one after a restart, whatever its number."""

    async def call(self, document: Document) -> Document:
        return told(await self.post(document))

    def post(self, document: Document) -> "asyncio.Future[Document]":
        """Ask; the answer is still to be `told`. Raises PeerGone."""
        if self.closed:
            raise PeerGone("the connection ended")
        number = next(self._numbers)
        waiting: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._channel.post({**document, "id": number})
        self._waiting[number] = waiting
        waiting.add_done_callback(lambda _: self._waiting.pop(number, None))
        return waiting

    def cast(self, document: Document) -> None:
        self._channel.post(document)

    async def run(self) -> None:
        try:
            while True:
                answer = await self._channel.document()
                number = answer.get("id")
                waiting = self._waiting.get(number) if isinstance(number, int) else None
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        except PeerGone:
            pass
        finally:
            self.close()

    def kill(self, why: str) -> None:
        if not self._killed:  # many may have waited
            self._killed = True
            _log.error("%s: it is killed", why)
        self._hold.kill()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._channel.close()
            self._hold.release()
            for waiting in list(self._waiting.values()):
                if not waiting.done():
                    waiting.set_exception(PeerGone("the connection ended"))


class Coming:
    """Frames that follow an answer. Implements forebay.origin.read_body.Pieces."""

    def __init__(self, channel: Channel, pulse: Pulse) -> None:
        self._channel = channel
        self._pulse = pulse
        self._left = memoryview(b"")
        """Of a frame that was larger than what was asked for."""

    def take(self, target: memoryview) -> bool:  # frames are waited for
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
        except PeerGone as gone:
            raise OriginBroken(f"the worker that was asked went away: {gone}") from None
        if frame.kind == "bytes":
            return frame.payload
        if frame.kind == "document":
            raise failure_of(frame.document) or OriginBroken("a document among bytes")
        self.close()
        return b""

    async def next_document(self) -> Document | None:
        """The next document; None at the end. Raises PeerGone, and what the other failed with."""
        frame = await self._channel.receive()
        if frame.kind == "end":
            self.close()
            return None
        return told(frame.document)

    def close(self) -> None:
        self._pulse.unwatch(self._channel)
        self._channel.close()

    def body(self, length: int) -> ReadBody:
        """The bytes as a body of an answer: counted, and not asked for again."""
        return ReadBody(self, length, _not_again)


def told(answer: Document) -> Document:
    """An answer, if it tells of no failure; raises that if it does."""
    failure = failure_of(answer)
    if failure is not None:
        raise failure
    return answer


async def _not_again(failure: OriginError) -> "Coming":
    raise failure
