"""Writes one shard: members one after the other, then verified as the origin has them.

    objects ──read ahead, in order──> TAR ──multipart──> shard ──read back──> digest of each member ──> its index

Objects are read at the origin, not through the cache: they are read once. What is read ahead of the writer is bounded
in bytes; an object larger than that is read piece by piece.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken
from forebay.core.heads import ObjectFacts
from forebay.core.names import ObjectName
from forebay.jobs.packing.multipart_writer import MultipartWriter
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened
from forebay.protocol.dates import parse_http_date
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember, PackShard, member_of
from forebay.protocol.packs.tar_members import member_header
from forebay.protocol.tar_header import END_OF_TAR, padding
from forebay.protocol.xml.s3_documents import embedded_error

PIECE: Final = 4 << 20
"""Bytes of a large object, or of a shard that is verified, in memory at once."""


@dataclass(frozen=True, slots=True)
class WholeObject:
    """An object in memory."""

    key: str
    facts: ObjectFacts
    content: bytes


async def read_object(origins: ObjectReads, name: ObjectName, most: int) -> WholeObject:
    """Reads an object of at most `most` bytes. Raises OriginError, Throttled."""
    answer = await origins.open_read(name, OriginRead())
    if isinstance(answer, ErrorResponse):
        raise OriginBroken(f"the origin answered {embedded_error(answer.body) or answer.status}")
    if not isinstance(answer, ObjectOpened):
        raise OriginBroken("it can't be read as bytes of a version")
    if answer.facts.size > most:
        answer.body.close()
        raise OriginBroken("it has grown since it was listed")
    return WholeObject(name.key, answer.facts, await answer.body.read_all())


async def read_pieces(origins: ObjectReads, name: ObjectName, size: int, etag: str) -> AsyncIterator[bytes]:
    """Yields the bytes of one version, piece by piece. Raises OriginError, Throttled."""
    for start in range(0, size, PIECE):
        span = Span(start, min(start + PIECE, size))
        answer = await origins.open_read(name, OriginRead(span=span))
        if not isinstance(answer, ObjectOpened):
            raise OriginBroken("it can't be read any more")
        if answer.facts.version.etag != etag or answer.span != span:
            answer.body.close()
            raise OriginBroken("it was replaced while it was read")
        yield await answer.body.read_all()


class ShardWriter:
    """One shard, from its first member to its verification."""

    def __init__(self, origins: ObjectReads, writer: MultipartWriter, number: int) -> None:
        """`number`: of the shard, by which its members name it."""
        self._origins = origins
        self._writer = writer
        self._number = number
        self.members: list[PackedMember] = []

    @property
    def size(self) -> int:
        """Bytes so far."""
        return self._writer.size

    async def add(self, found: WholeObject) -> None:
        """Adds an object."""
        await self._begin(found.key, found.facts)
        offset = self._writer.size
        await self._writer.write(found.content)
        await self._writer.write(padding(found.facts.size))
        digest = blake2b(found.content, digest_size=DIGEST_BYTES).digest()
        self.members.append(member_of(found.key, found.facts, self._number, offset, digest))

    async def add_large(self, name: ObjectName, facts: ObjectFacts) -> None:
        """Adds an object that is not in memory. Its failure makes the shard useless."""
        await self._begin(name.key, facts)
        offset, digest = self._writer.size, blake2b(digest_size=DIGEST_BYTES)
        async for piece in read_pieces(self._origins, name, facts.size, facts.version.etag):
            digest.update(piece)
            await self._writer.write(piece)
        await self._writer.write(padding(facts.size))
        self.members.append(member_of(name.key, facts, self._number, offset, digest.digest()))

    async def _begin(self, key: str, facts: ObjectFacts) -> None:
        await self._writer.write(member_header(key, facts.size, parse_http_date(facts.last_modified) or 0))

    async def finish(self) -> PackShard:
        """Ends the shard, and verifies every member of it as the origin has it. Raises OriginBroken if one differs."""
        await self._writer.write(END_OF_TAR)
        await self._writer.finish()
        name, size = self._writer.name, self._writer.size
        answer = await self._origins.open_read(name, OriginRead("HEAD"))
        if not isinstance(answer, ObjectOpened) or answer.facts.size != size:
            raise OriginBroken(f"{name.path} is not as it was written")
        shard = PackShard(name.key, size, answer.facts.version.etag)
        async for member in differing_members(self._origins, name, shard, self.members):
            raise OriginBroken(f"{name.path}: the bytes of {member.key} are not those that were read")
        return shard

    async def abort(self) -> None:
        """Gives the shard up."""
        await self._writer.abort()


async def differing_members(
    origins: ObjectReads, name: ObjectName, shard: PackShard, members: Sequence[PackedMember]
) -> AsyncIterator[PackedMember]:
    """Yields the members of a shard whose bytes do not match their digest. `members` in the order of their offsets.
    Raises OriginError, Throttled."""
    position, left = 0, list(reversed(members))
    digest = blake2b(digest_size=DIGEST_BYTES)
    async for piece in read_pieces(origins, name, shard.size, shard.etag):
        end = position + len(piece)
        while left and left[-1].offset < end:
            member = left[-1]
            start = max(member.offset, position)
            digest.update(memoryview(piece)[start - position : max(start, min(member.stop, end)) - position])
            if member.stop > end:
                break
            left.pop()
            if digest.digest() != member.digest:
                yield member
            digest = blake2b(digest_size=DIGEST_BYTES)
        position = end
    for member in left:
        yield member
