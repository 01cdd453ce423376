"""Reads packs for jobs: verifies members against their digests, and writes members as objects."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Final, NamedTuple

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginError, WriteRefused
from forebay.core.fences import Tick
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.jobs.packing.index_publisher import IndexSource
from forebay.jobs.packing.multipart_writer import MultipartWriter, pause_between_attempts
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.packing.shard_writer import PIECE, differing_members
from forebay.namespace.packs.index_file import IndexFile
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened
from forebay.origin.small_objects import put_object
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember, PackShard
from forebay.protocol.packs.tombstones import Tombstone
from forebay.write.conditional_writes import ABSENT, NOT_COMPARED, condition_of

SHARDS_AT_ONCE: Final = 16
"""Shards whose members are found in one pass over the index, which is in the order of keys."""
_OVERTAKEN: Final = frozenset({409, 412})
"""Statuses of an origin that has an object where there was to be none, or is just being given one."""


class CheckedMembers(NamedTuple):
    """The number of verified members, and their bytes."""

    number: int
    size: int


async def check_members(
    reads: ObjectReads, index: IndexFile
) -> AsyncIterator[tuple[CheckedMembers, list[tuple[str, str]]]]:
    """Verifies all members, a shard at a time; with each the keys that differ, and why. Raises MalformedPack,
    StorageError, Throttled."""
    for first in range(0, len(index.shards), SHARDS_AT_ONCE):
        by_shard: dict[int, list[PackedMember]] = {}
        async for member in IndexSource(index).members():
            if first <= member.shard < first + SHARDS_AT_ONCE:
                by_shard.setdefault(member.shard, []).append(member)
        for number, members in by_shard.items():
            members.sort(key=lambda member: member.offset)
            checked = CheckedMembers(len(members), sum(member.size for member in members))
            name = ObjectName(index.name.bucket, index.shards[number].key)
            differing: list[tuple[str, str]] = []
            try:
                differing = [
                    (member.key, "its bytes do not match its digest")
                    async for member in differing_members(reads, name, index.shards[number], members)
                ]
            except OriginError as failure:
                differing = [(member.key, f"{name.key}: {failure.reason}") for member in members]
            yield checked, differing


async def write_objects(
    packing: PackServices, index: IndexFile, only: str, since: Tick
) -> AsyncIterator[tuple[PackedMember, str]]:
    """Writes the members whose keys begin with `only` as objects, where there is none; with each why it was not
    written, if so. `since`: before the index was read. Raises MalformedPack, StorageError, Throttled."""
    keys = _FreeKeys(packing, index, since)
    async for member in IndexSource(index).members():
        if not member.key.startswith(only):
            continue
        problem = ""
        try:
            async with packing.origins.background(index.name.bucket).turn(f"unpack {only}"):
                await _write_object(packing, keys, member, index.shards[member.shard])
        except OriginError as failure:
            problem = failure.reason
        yield member, problem


class _FreeKeys:
    """The members that may become objects: those without an object that are not deleted.

    The fences say, at no cost, whether a key was written or deleted through this node since it was looked at.
    """

    def __init__(self, packing: PackServices, index: IndexFile, since: Tick) -> None:
        self.bucket = index.name.bucket
        self._packing, self._index = packing, index
        self._read_at = since
        """The time at which the tombstones were read."""
        self._deleted: set[Tombstone] = set()
        """The tombstones that came after the index was read."""

    async def find(self, member: PackedMember) -> Tick | None:
        """Returns when a key was found free; None: it is not. Raises OriginError, S3Error, PackUnavailable,
        Throttled."""
        since = self._packing.fences.now()
        if await self._is_deleted(member):
            return None
        present = await self._packing.origins.open_read(ObjectName(self.bucket, member.key), OriginRead("HEAD"))
        if isinstance(present, ObjectOpened):
            return None
        if not isinstance(present, ErrorResponse) or present.status != 404:
            raise OriginBroken("it is not known whether there is an object")
        return since

    async def is_still_free(self, member: PackedMember, since: Tick) -> bool:
        """Returns whether a key that was free at `since` still is. Raises the errors of `find`."""
        found: Tick | None = since
        while found is not None and not self._packing.fences.allows(ObjectName(self.bucket, member.key), found):
            found = await self.find(member)
        return found is not None

    async def _is_deleted(self, member: PackedMember) -> bool:
        fences = self._packing.fences
        if not fences.allows(ObjectName(self.bucket, member.key), self._read_at):
            now, index = fences.now(), self._index
            _, new = await self._packing.tombstones.find(self.bucket, index.name.key, index.applied)
            self._deleted.update(new)
            self._read_at = now
        return Tombstone(member.key, self._index.shards[member.shard].key, member.offset) in self._deleted


async def _write_object(packing: PackServices, keys: _FreeKeys, member: PackedMember, shard: PackShard) -> None:
    since = await keys.find(member)
    if since is None:
        return
    name = ObjectName(keys.bucket, member.key)
    headers = tuple(pair for pair in member.headers if pair[0].lower() != "accept-ranges" and "crc64" not in pair[0])
    headers = tuple(pair for pair in headers if not pair[0].lower().startswith("x-amz-checksum-"))
    if member.size <= PIECE:
        content = await _read(packing.origins, name.bucket, member, shard)

        async def put(conditions: HeaderPairs) -> None:
            await put_object(packing.origins, name, content, (*headers, *conditions))

        await _make_visible(packing, keys, member, since, "PutObject", put)
        return
    writer = MultipartWriter(packing.origins, name, 2 * PIECE, pause_between_attempts, headers)
    try:
        await _send_parts(packing, writer, member, shard)
        if not await _make_visible(packing, keys, member, since, "CompleteMultipartUpload", writer.finish):
            await writer.abort()
    except BaseException:
        await writer.abort()
        raise


async def _make_visible(
    packing: PackServices,
    keys: _FreeKeys,
    member: PackedMember,
    since: Tick,
    operation: str,
    step: Callable[[HeaderPairs], Awaitable[None]],
) -> bool:
    """Takes the visible step if the key, which was free at `since`, still is; the origin compares, too, where it can.
    Returns whether the step was taken. Raises the errors of `step`."""
    if not await keys.is_still_free(member, since):
        return False
    name = ObjectName(keys.bucket, member.key)
    conditions = packing.conditional.usable(name, operation, condition_of(operation, ABSENT))
    async with _invalidated(packing, name):
        try:
            await step(conditions)
        except WriteRefused as refusal:
            if refusal.status in _OVERTAKEN and await keys.find(member) is None:
                return False
            if not conditions or refusal.status not in NOT_COMPARED:
                raise
            if await keys.find(member) is None:
                return False
            await step(())
            packing.conditional.refused(name, operation, conditions)
    return True


@asynccontextmanager
async def _invalidated(packing: PackServices, name: ObjectName) -> AsyncIterator[None]:
    """Invalidates a name before and after an object appears under it."""
    await packing.invalidator.invalidate((name,))
    try:
        yield
    finally:
        await packing.invalidator.invalidate((name,))


async def _send_parts(packing: PackServices, writer: MultipartWriter, member: PackedMember, shard: PackShard) -> None:
    digest = blake2b(digest_size=DIGEST_BYTES)
    for start in range(member.offset, member.stop, PIECE):
        span = Span(start, min(start + PIECE, member.stop))
        piece = await _read_span(packing.origins, writer.name.bucket, shard, span)
        digest.update(piece)
        await writer.write(piece)
    if digest.digest() != member.digest:
        raise OriginBroken("its bytes do not match its digest")


async def _read(reads: ObjectReads, bucket: str, member: PackedMember, shard: PackShard) -> bytes:
    if not member.size:
        return b""
    content = await _read_span(reads, bucket, shard, Span(member.offset, member.stop))
    if blake2b(content, digest_size=DIGEST_BYTES).digest() != member.digest:
        raise OriginBroken("its bytes do not match its digest")
    return content


async def _read_span(reads: ObjectReads, bucket: str, shard: PackShard, span: Span) -> bytes:
    answer = await reads.open_read(ObjectName(bucket, shard.key), OriginRead(span=span))
    if not isinstance(answer, ObjectOpened):
        raise OriginBroken(f"the shard {shard.key} can't be read")
    if answer.facts.version.etag != shard.etag:
        answer.body.close()
        raise OriginBroken(f"the shard {shard.key} is not the one that the index names")
    return await answer.body.read_all()
