"""The body store: bodies on their way into the journal, hashed as they arrive.

    pieces ──┬──> thread: MD5
             └──> thread: body file, CRC64 of its slices

A small body becomes its record's payload, and stays in the memory of every worker, as long as all of these take no more
than MOST_IN_MEMORY. A larger one, and one above that, is received, hashed and written at the same time
(core.piece_queue), so it takes as long as the slowest of these: MD5, at some 0.7 GB/s, unless the disk is slower. If
the client has declared the MD5, it is computed once, for its verification.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from hashlib import md5
from typing import Final, NamedTuple, Protocol

from forebay.core.buffers import Piece
from forebay.core.piece_queue import PieceQueue
from forebay.protocol.body.checksums import PREFIX, Hasher, encode, hasher
from forebay.protocol.body.crc64 import crc64
from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.journal import Journal, JournalBody
from forebay.write.body_digest import BodyDigest

SMALL: Final = 256 << 10
"""Bytes of a body that is written into its record."""
MOST_IN_MEMORY: Final = 64 << 20
"""Bytes of small bodies that are pending: more of them have files, which take some syncs longer."""
_BATCH: Final = 1 << 20
"""Bytes of a body that are hashed or written at a time, or more where there are more."""
_LIMIT: Final = 2 << 20
"""Bytes of a body that may wait for each thread."""


class StoredBody(NamedTuple):
    """A body in a file of the journal, or a small one that its record will hold. `release` it once its record is
    durable, or `discard` it."""

    payload: bytes
    """The whole body, if it is small."""
    file: JournalBody | None
    ref: BodyRef | None
    digest: BodyDigest
    md5: bytes
    etag: str
    """The ETag that its origin gives these bytes."""

    @property
    def bodies(self) -> tuple[BodyRef, ...]:
        """Returns the bodies that its record refers to."""
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


class HashedSource:
    """A body that is hashed as it is read. Implements ByteSource."""

    def __init__(self, source: ByteSource, algorithm: str) -> None:
        self._source = source
        self._name = PREFIX + algorithm
        self._hasher: Hasher = hasher(algorithm)

    @property
    def header(self) -> tuple[str, str]:
        """Returns the header with the checksum of the bytes read."""
        return self._name, encode(self._hasher.digest())

    async def pieces(self) -> AsyncIterator[Piece]:
        """Yields its bytes. Raises what its source raises."""
        async for piece in self._source.pieces():
            self._hasher.update(piece)
            yield piece


class BodyStore:
    """Stores bodies. `etag_of` returns the ETag that the origin of a body makes of its MD5 in hexadecimal."""

    def __init__(self, journal: Journal, in_memory: Callable[[], int]) -> None:
        """`in_memory`: bytes of the small bodies that are pending."""
        self._journal = journal
        self._in_memory = in_memory
        self.most_in_memory = MOST_IN_MEMORY

    def takes_small(self, size: int) -> bool:
        """Returns whether the record of a body of so many bytes may hold it."""
        return size <= SMALL and (not size or self._in_memory() + size <= self.most_in_memory)

    def store_small(
        self, content: Piece, etag_of: Callable[[str], str], *, verified_md5: bytes | None = None
    ) -> StoredBody:
        """Returns a body that its record will hold, as `store` does. The caller looks whether it `takes_small`."""
        digest = BodyDigest(crc64(content), len(content))
        own = md5(content, usedforsecurity=False).digest() if verified_md5 is None else verified_md5
        return StoredBody(bytes(content), None, None, digest, own, etag_of(own.hex()))

    async def store(
        self,
        body: ByteSource | None,
        etag_of: Callable[[str], str],
        *,
        verified_md5: bytes | None = None,
        size: int = 0,
    ) -> StoredBody:
        """Writes a body into the journal. `verified_md5`: its MD5, where its pieces end only if they have that. `size`:
        its bytes, as far as they are known. Raises what its pieces raise, OSError."""
        waiting: list[Piece] = []
        received = 0
        if body is not None:
            pieces = body.pieces()
            async for piece in pieces:
                waiting.append(piece)
                received += len(piece)
                if received > SMALL:
                    return await self._store_large(waiting, pieces, etag_of, verified_md5, size)
            if not self.takes_small(received):
                return await self._store_large(waiting, pieces, etag_of, verified_md5, size)
        return self.store_small(b"".join(waiting), etag_of, verified_md5=verified_md5)

    async def _store_large(
        self,
        first: Sequence[Piece],
        rest: AsyncIterator[Piece],
        etag_of: Callable[[str], str],
        verified_md5: bytes | None,
        size: int,
    ) -> StoredBody:
        file = await self._journal.create_body(size)
        hashed, writing = md5(usedforsecurity=False), file.queue(_BATCH, _LIMIT)
        hashing = PieceQueue(partial(_update, hashed), batch=_BATCH, limit=_LIMIT)
        queues = (hashing, writing) if verified_md5 is None else (writing,)
        try:
            for queue in queues:
                queue.put(first)
            async for piece in rest:
                for queue in queues:
                    queue.put((piece,))
                for queue in queues:
                    await queue.wait_for_room()
            await writing.finish()
            ref = await file.finish()
            await hashing.finish()
            own = hashed.digest() if verified_md5 is None else verified_md5
            return StoredBody(b"", file, ref, BodyDigest(file.crc, ref.size), own, etag_of(own.hex()))
        except BaseException:
            await hashing.stop()
            await writing.stop()
            with suppress(OSError):
                await file.discard()
            raise


def _update(hashed: Hasher, pieces: Sequence[Piece]) -> None:
    for piece in pieces:
        hashed.update(piece)
