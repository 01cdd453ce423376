"""Another worker of the node: one lasting connection for short questions, and one of their own for answers with bytes.

The lasting connection, the *link*, also tells either end that the other has died: what a worker had begun and not
settled is doubted by those who had a link from it.

Three ways to ask:

    call      once; PeerGone if the worker is not there or goes
    insist    until it has answered or nobody listens at its socket; a worker that lives and does not answer within the
              patience is killed. After it, that worker has done what was asked, or knows nothing.
    ask       on a connection of its own, whose answer goes on as bytes
"""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeAlias

from forebay.stores.origin.body import ReadBody
from forebay.stores.peers.connecting import Hold, NotListening, connect
from forebay.stores.peers.documents import failure_of
from forebay.stores.peers.frames import Channel, Document, PeerGone
from forebay.words.errors import OriginBroken, OriginError

Spawn: TypeAlias = Callable[[Coroutine[Any, Any, None], str], object]
"""Starts a task that somebody owns."""

LOOK_AGAIN: Final = 0.02
"""Seconds before a worker that hung up is tried again: it is on its way out, or was restarted."""

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

    async def insist(self, document: Document, patience: float | None) -> str | None:
        """Ask until it is answered, and name the process that did; None: nobody listens. See the module."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                async with asyncio.timeout(patience):
                    link = await self._linked()
                    await link.call(document)
                    return link.process
            except NotListening:
                return None
            except (TimeoutError, PeerGone):
                if patience is not None and loop.time() - began >= patience and self._link is not None:
                    _log.error("worker %d has not answered for %g s: it is killed", self.worker, patience)
                    self._link.kill()
                await asyncio.sleep(LOOK_AGAIN)

    async def ask(self, document: Document) -> tuple[Document, "Coming"]:
        """Ask for bytes: what comes before them, and they. Raises PeerGone, and what the other failed with."""
        channel = await connect(self._path)
        try:
            await channel.send(document)
            answer = await channel.document()
            failure = failure_of(answer)
            if failure is not None:
                raise failure
        except BaseException:
            channel.close()
            raise
        return answer, Coming(channel)

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
        self.process = ""
        """What the process calls itself: another one after a restart, whatever its number."""

    async def call(self, document: Document) -> Document:
        if self.closed:
            raise PeerGone("the connection ended")
        number = next(self._numbers)
        waiting: asyncio.Future[Document] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        try:
            self._channel.post({**document, "id": number})
            answer = await waiting
        finally:
            self._waiting.pop(number, None)
        failure = failure_of(answer)
        if failure is not None:
            raise failure
        return answer

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

    def kill(self) -> None:
        self._hold.kill()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._channel.close()
            self._hold.release()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(PeerGone("the connection ended"))


class Coming:
    """Frames that follow an answer. Implements forebay.stores.origin.body.Pieces."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._left = memoryview(b"")
        """Of a frame that was larger than what was asked for."""

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
        failure = failure_of(frame.document)
        if failure is not None:
            raise failure
        return frame.document

    def close(self) -> None:
        self._channel.close()

    def body(self, length: int) -> ReadBody:
        """The bytes as a body of an answer: counted, and not asked for again."""
        return ReadBody(self, length, _not_again)


async def _not_again(failure: OriginError) -> "Coming":
    raise failure
