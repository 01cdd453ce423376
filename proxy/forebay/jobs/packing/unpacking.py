"""Reads packs for jobs: verifies members against their digests, and writes members as objects."""

from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Final, NamedTuple

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginError
from forebay.core.names import ObjectName
from forebay.jobs.packing.index_publisher import IndexSource
from forebay.jobs.packing.multipart_writer import MultipartWriter, pause_between_attempts
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.packing.shard_writer import PIECE, differing_members
from forebay.namespace.packs.index_file import IndexFile
from forebay.origin.object_reads import ObjectReads
from forebay.origin.origin_read import OriginRead
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened
from forebay.origin.small_objects import put_object
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember, PackShard

SHARDS_AT_ONCE: Final = 16
"""Shards whose members are found in one pass over the index, which is in the order of keys."""


class CheckedMembers(NamedTuple):
    """How many members were verified, and their bytes."""

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


async def write_objects(packing: PackServices, index: IndexFile, only: str) -> AsyncIterator[tuple[PackedMember, str]]:
    """Writes the members whose keys begin with `only` as objects, where there is none; with each why it was not
    written, if so. Raises MalformedPack, StorageError, Throttled."""
    async for member in IndexSource(index).members():
        if not member.key.startswith(only):
            continue
        problem = ""
        try:
            async with packing.origins.background(index.name.bucket).turn(f"unpack {only}"):
                await _write_object(
                    packing, ObjectName(index.name.bucket, member.key), member, index.shards[member.shard]
                )
        except OriginError as failure:
            problem = failure.reason
        yield member, problem


async def _write_object(packing: PackServices, name: ObjectName, member: PackedMember, shard: PackShard) -> None:
    present = await packing.origins.open_read(name, OriginRead("HEAD"))
    if isinstance(present, ObjectOpened):
        return
    if not isinstance(present, ErrorResponse) or present.status != 404:
        raise OriginBroken("it is not known whether there is an object")
    headers = tuple(pair for pair in member.headers if pair[0].lower() != "accept-ranges" and "crc64" not in pair[0])
    headers = tuple(pair for pair in headers if not pair[0].lower().startswith("x-amz-checksum-"))
    await packing.invalidator.invalidate((name,))
    try:
        if member.size <= PIECE:
            await put_object(packing.origins, name, await _read(packing.origins, name.bucket, member, shard), headers)
        else:
            await _copy_large(packing, name, member, shard, headers)
    finally:
        await packing.invalidator.invalidate((name,))


async def _copy_large(
    packing: PackServices,
    name: ObjectName,
    member: PackedMember,
    shard: PackShard,
    headers: tuple[tuple[str, str], ...],
) -> None:
    writer, digest = (
        MultipartWriter(packing.origins, name, 2 * PIECE, pause_between_attempts, headers),
        blake2b(digest_size=DIGEST_BYTES),
    )
    try:
        for start in range(0, member.size, PIECE):
            piece = await _read_span(
                packing.origins,
                name.bucket,
                shard,
                Span(member.offset + start, member.offset + min(start + PIECE, member.size)),
            )
            digest.update(piece)
            await writer.write(piece)
        if digest.digest() != member.digest:
            raise OriginBroken("its bytes do not match its digest")
        await writer.finish()
    except BaseException:
        await writer.abort()
        raise


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
