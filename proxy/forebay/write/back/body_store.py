"""The body store: bodies on their way into the journal, hashed as they arrive.

A small body stays in memory and becomes its record's payload; a larger one goes to a body file, a MiB at a time, while
another thread hashes the same bytes.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import md5
from typing import Final, NamedTuple, Protocol

from forebay.core.buffers import Buffer, Piece
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.journal import Journal, JournalBody
from forebay.write.body_digest import BodyDigest

SMALL: Final = 256 << 10
"""Bytes of a body that is written into its record."""
_BATCH: Final = 1 << 20
"""Bytes of a body that are hashed and written at a time, in a thread."""


class StoredBody(NamedTuple):
    """A body in the journal, or for it. `release` it once its record is durable, or `discard` it."""

    payload: bytes
    """The whole body, if it is small."""
    file: JournalBody | None
    ref: BodyRef | None
    digest: BodyDigest
    md5: bytes

    @property
    def etag(self) -> str:
        """The ETag that S3 gives these bytes."""
        return f'"{self.md5.hex()}"'

    @property
    def bodies(self) -> tuple[BodyRef, ...]:
        """What its record refers to."""
        return () if self.ref is None else (self.ref,)

    def release(self) -> None:
        """The record is durable."""
        if self.file is not None:
            self.file.release()

    async def discard(self) -> None:
        """There will be no record."""
        if self.file is not None:
            with suppress(OSError):
                await self.file.discard()


class ByteSource(Protocol):
    """A body that is read once."""

    def pieces(self) -> AsyncIterator[Piece]:
        """Yields its bytes. Raises S3Error for a body that is not what was announced."""
        ...


class BodyStore:
    """Stores bodies."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def store(self, body: ByteSource | None) -> StoredBody:
        """Writes a body into the journal. Raises what its pieces raise, OSError."""
        digest, etag, file = BodyDigest(), md5(usedforsecurity=False), None
        waiting: list[Piece] = []
        size = 0

        def hash_pieces(pieces: list[Piece]) -> None:
            for piece in pieces:
                etag.update(piece)
                digest.update(piece)

        try:
            if body is not None:
                async for piece in body.pieces():
                    waiting.append(piece)
                    size += len(piece)
                    if size < _BATCH:
                        continue
                    file = file or await self._journal.create_body()
                    batch, waiting, size = waiting, [], 0
                    await asyncio.gather(asyncio.to_thread(hash_pieces, batch), file.append(batch))
            if file is None and size <= SMALL:
                hash_pieces(waiting)
                return StoredBody(b"".join(waiting), None, None, digest, etag.digest())
            file = file or await self._journal.create_body()
            await asyncio.gather(asyncio.to_thread(hash_pieces, waiting), file.append(waiting))
            return StoredBody(b"", file, await file.finish(), digest, etag.digest())
        except BaseException:
            if file is not None:
                with suppress(OSError):
                    await file.discard()
            raise

    async def store_bytes(self, content: Buffer) -> StoredBody:
        """Stores bytes that are in memory. Raises OSError."""
        digest, etag = BodyDigest(), md5(usedforsecurity=False)
        digest.update(content)
        await asyncio.to_thread(etag.update, content)
        if len(content) <= SMALL:
            return StoredBody(bytes(content), None, None, digest, etag.digest())
        file = await self._journal.create_body()
        try:
            await file.append([content])
            return StoredBody(b"", file, await file.finish(), digest, etag.digest())
        except BaseException:
            with suppress(OSError):
                await file.discard()
            raise
