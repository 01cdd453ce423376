"""The body of a request as it comes from the client: decoded, verified, and its start read ahead.

    client ──> decode, verify ──> read ahead, in the spool ──> turn at the origin ──> the same pieces, then the rest

A client may send slowly. So a request gets its turn at the origin only when the start of its body has arrived: all of a
small body, which is then verified whole before anything is sent, or READ_AHEAD bytes of a longer one. They are charged
as they arrive. Without memory in the spool less is read ahead; there is no wait for memory here.

The body is read once. Its last bytes are yielded only after all of it was verified (forebay.protocol.body.payload).
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.errors import SpoolFailed
from forebay.core.piece_queue import PieceQueue
from forebay.protocol.body.payload import PayloadForm, PayloadReader, join_small_pieces
from forebay.protocol.exchange import Body
from forebay.storage.spool import Spool
from forebay.storage.spooled_body import SPILL_SIZE, SpooledBody

READ_AHEAD: Final = 1 << 20
"""Bytes of a body that are awaited before its request takes a turn at the origin."""
LARGE: Final = 1024 << 10
"""Bytes of a body, and at a time, that are checked in a thread."""
_LARGE_PIECE: Final = 64 << 10
"""Bytes of signed chunks that are decoded in a thread: their hash, at 1.8 GB/s, takes as long as a hop to it and back.
"""


class IncomingBody:
    """The body of a request. `release` it, however the request ended."""

    def __init__(self, body: Body, form: PayloadForm, reader: PayloadReader, *, is_whole: bool = False) -> None:
        """`is_whole`: the body is here already."""
        self.form = form
        self.reader = reader
        self.is_whole = is_whole
        """Whether no client is waited for any more: all of the body is here."""
        self.awaits_continue = False
        """Whether the client waits for 100 Continue, which it gets once the origin asks for the body."""
        self.checksums: Mapping[str, str] = {}
        """The verified checksums by header, once all of it was read."""
        self._rest = self._decoded(body)
        self._is_read = False
        self._ahead: SpooledBody | None = None
        self._next: Piece | None = None
        """The piece that was read after `_ahead`, and is not in the spool."""

    @property
    def declared_md5(self) -> bytes | None:
        """The MD5 that the whole body will have, or else its last bytes are not yielded; None: none was declared."""
        return self.reader.checks.declared_md5

    @property
    def verified(self) -> Piece | None:
        """The whole body, decoded, once `verify_whole` has it, and before anything is read of it; None otherwise."""
        return (self._next if self._next is not None else b"") if self._is_read else None

    async def read_ahead(self, spool: Spool, limit: int = READ_AHEAD) -> None:
        """Reads the body to its end, or at least `limit` bytes of it, or as many as the spool has memory for. Raises
        S3Error for a body that is not what was announced."""
        self._ahead = ahead = spool.create()
        async for piece in self._rest:
            if ahead.size >= limit or not ahead.try_reserve(len(piece)):
                self._next = piece
                return
            ahead.append(piece)
            try:
                await ahead.spill(least=SPILL_SIZE)
            except SpoolFailed:  # no file can be written: what is here stays in memory
                return

    async def start(self) -> None:
        """Reads the first piece: a body that is refused from its start costs the origin nothing."""
        self._next = await anext(self._rest, None)

    async def verify_whole(self, content: bytes) -> None:
        """Decodes and verifies a whole body of at most SMALL_BODY bytes, which is here. Raises S3Error for one that is
        not what was announced."""
        reader = self.reader
        if reader.is_framed:
            decoded, ended = await decode_piece(reader, content), reader.close()
            pieces = (*decoded, *ended.pieces)
            self._next = pieces[0] if len(pieces) == 1 else b"".join(pieces) or None
        else:
            ended = reader.verify_content(content)
            self._next = content or None
        self._is_read = self.is_whole = True
        self.checksums = ended.checksums

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yields the decoded body, once. Raises S3Error for one that is not what was announced, SpoolFailed."""
        if self._ahead is not None:
            async for piece in self._ahead.pieces():
                yield piece
            self._ahead.release()
        if self._next is not None:
            yield self._next
            self._next = None
        if self._is_read:
            return
        async for decoded in self._rest:
            yield decoded

    def release(self) -> None:
        """Drops the bytes that were read ahead. May be called twice."""
        if self._ahead is not None:
            self._ahead.release()

    async def _decoded(self, body: Body) -> AsyncIterator[Piece]:
        checking = self._checked_by_thread()
        async for piece in body.pieces():
            for decoded in await decode_piece(self.reader, piece):
                yield decoded
            if checking is not None:
                await checking.wait_for_room()
        if checking is not None:
            await checking.finish()
        ended = self.reader.close()
        self.checksums, self.is_whole = ended.checksums, True
        for decoded in ended.pieces:
            yield decoded

    def _checked_by_thread(self) -> PieceQueue | None:
        """Returns a queue that checks the bytes of a large body, if that takes long. They are yielded meanwhile."""
        reader = self.reader
        if reader.length < LARGE or reader.hashes_chunks or not reader.checks.is_slow:
            return None
        checking = PieceQueue(reader.checks.update, batch=LARGE, limit=2 * LARGE)
        reader.check_by(checking.put)
        return checking


async def decode_piece(reader: PayloadReader, piece: Piece) -> Sequence[Piece]:
    """Returns the decoded bytes that may be forwarded after this piece. Raises S3Error.

    Other tasks run meanwhile where that takes long: a large piece of signed chunks is decoded in a thread, and one
    of many chunks in steps.
    """
    if not reader.is_framed:
        return reader.feed_content(piece)
    if len(piece) >= _LARGE_PIECE and reader.hashes_chunks:
        return await asyncio.to_thread(reader.feed, piece)
    decoded: list[Piece] = []
    for number, batch in enumerate(reader.feed_in_steps(piece)):
        if number:
            await asyncio.sleep(0)
        decoded += batch
    return join_small_pieces(decoded)
