"""The reply to one entry of a batch: an object that was read as by a GET of its own becomes an entry of the answer.

    before its turn    HELD_SIZE bytes are kept; then the reader is blocked, and holds no buffer
                       (forebay.fetch.paused_readers)
    in its turn        its bytes go to the output
    an error           its status, code and message are kept, for a mark

Nothing of an entry is in the output before its turn, so that one which broke off until then can be read again, or
marked. After that only the end of the whole response shows it.
"""

import asyncio
import re
from collections.abc import Callable
from html import unescape
from typing import Final, Literal

from forebay.core.buffers import Buffer
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.batch.batch_output import STEP, BatchOutput
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark

HELD_SIZE: Final = 16 << 10
"""Bytes of an entry that are kept until its turn."""
_DOCUMENT_SIZE: Final = 64 << 10
_CODE: Final = re.compile(rb"<Code>([A-Za-z0-9._-]{1,100})</Code>")
_MESSAGE: Final = re.compile(rb"<Message>([^<]{1,1000})</Message>")

EntryState = Literal["reading", "complete", "marked", "broken"]


class EntryReply:
    """Implements forebay.protocol.exchange.ObjectReply."""

    def __init__(
        self,
        entry: BatchEntry,
        index: int,
        output: BatchOutput,
        on_size: Callable[[int], None],
        on_ready: Callable[[], None],
    ) -> None:
        """`index`: its position in the batch. `on_size`: called with the bytes of the entry as soon as
        they are known; `on_ready`: once it has something for the output, or ended without."""
        self._entry = entry
        self._index = index
        self._output = output
        self._on_size, self._on_ready = on_size, on_ready
        self._turn = asyncio.Event()
        self._held = bytearray()
        self._left = 0
        self._document: bytearray | None = None
        self._last_modified = ""
        self.size = 0
        """Bytes of the entry; good after `start`."""
        self.started = False
        self.is_committed = False
        """Whether the output has begun it."""
        self.state: EntryState = "reading"
        self.status = 0
        """The status of the response."""

    def give_turn(self) -> None:
        """The output is this entry's from now on."""
        self._turn.set()

    @property
    def mark(self) -> EntryMark:
        """Why it was refused, once its state is "marked"."""
        document = bytes(self._document or b"")
        code, message = _CODE.search(document), _MESSAGE.search(document)
        return EntryMark(
            self.status,
            code[1].decode() if code is not None else "InternalError",
            unescape(message[1].decode("utf-8", "replace")) if message is not None else "",
        )

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        """Notes the length of the entry. Raises S3Error, ConnectionAbortedError."""
        self._document = None
        if status == 412:  # of a member: another version of the archive than that in which it was found
            raise ConnectionAbortedError("the archive was replaced")
        if 200 <= status < 300:
            if length is None:
                raise S3Error("NotImplemented", "The origin sends this object without its length. Read it by a GET.")
            if (status == 206) is (self._entry.is_whole and self._entry.member is None):
                raise S3Error("NotImplemented", "The origin answered another range than the one that was sent.")
            self.size = self._left = length
            self._last_modified = next((value for name, value in headers if name.lower() == "last-modified"), "")
            self._on_size(length)
        else:
            self._document = bytearray()
        self.started, self.status = True, status

    async def write(self, buffer: Buffer | bytes) -> None:
        """Takes a piece, all of it."""
        if self._document is not None:
            if len(self._document) < _DOCUMENT_SIZE:
                self._document += buffer
            return
        piece = memoryview(buffer)
        while piece:
            piece = piece[self.accept(piece) :]
            if self.is_blocked:
                await self.drain()

    def accept(self, piece: Buffer) -> int:
        """Takes the front of a piece."""
        if len(piece) > self._left:
            raise ConnectionAbortedError("more bytes than were announced")
        if self._turn.is_set():
            self._commit()
            count = min(len(piece), STEP)
            self._output.append(piece[:count])
        else:
            count = min(len(piece), HELD_SIZE - len(self._held))
            self._held += piece[:count]
        self._left -= count
        return count

    @property
    def is_blocked(self) -> bool:
        """Whether nothing more is taken until `drain`."""
        if self._turn.is_set():
            return self._output.is_full
        return len(self._held) >= HELD_SIZE and self._left > 0

    async def drain(self) -> None:
        """Waits for the turn, or for the client."""
        if not self._turn.is_set():
            self._on_ready()
            await self._turn.wait()
        if self._output.is_full:
            await self._output.flush()

    async def finish(self) -> None:
        """Note that all of it is here."""
        if self._left:
            raise ConnectionAbortedError("another length than was announced")
        self.state = "marked" if self._document is not None else "complete"
        self._on_ready()

    def abort(self) -> None:
        """Note that it broke off."""
        self.state = "broken"
        self._held.clear()
        self._on_ready()

    def end(self) -> None:
        """Appends the rest of a complete entry."""
        self._commit()
        self._output.end()

    def _commit(self) -> None:
        if not self.is_committed:
            self.is_committed = True
            self._output.begin(self._index, self._entry, self._last_modified, self.size)
            self._output.append(self._held)
            self._held.clear()
