"""Publishes the index of a pack: members of older and newer indexes, merged by key, of which the newer one counts.

    old index ──┐
    new shards ─┼──merge──> index.fbpack, index.refs.json, by multipart upload: visible as wholes
    left out  ──┘

The references come first, as Forebay looks at the index alone. In memory there is one block of each source, and a part
of each upload.
"""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

from forebay.core.names import ObjectName
from forebay.jobs.packing.multipart_writer import MultipartWriter
from forebay.jobs.state.pack_order import PART_SUFFIX
from forebay.namespace.packs.index_file import IndexFile, fetch_index
from forebay.origin.reads.object_reads import ObjectReads
from forebay.protocol.packs.pack_index import IndexWriter
from forebay.protocol.packs.packed_member import PackedMember, PackShard
from forebay.protocol.packs.references import REFERENCES_BEGIN, REFERENCES_END, reference_entry


class MemberSource(Protocol):
    """Members in the order of their keys, which name shards by their positions in `shards`."""

    @property
    def shards(self) -> Sequence[PackShard]:
        """The shards."""
        ...

    def members(self) -> AsyncIterator[PackedMember]:
        """Yields the members, from the first one on. Raises ForebayError."""
        ...


class IndexSource:
    """The members of an index that are not deleted."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file
        self.shards: Sequence[PackShard] = file.shards

    async def members(self) -> AsyncIterator[PackedMember]:
        """Yields the members. Raises MalformedPack, StorageError."""
        for number in range(self._file.index.blocks):
            block = await self._file.block(number)
            for position in range(len(block)):
                if not self._file.is_hidden(number, position):
                    yield block.member(position)


class PartSource:
    """The members of shards that a job has written, from the index of each, of which one is open at a time."""

    def __init__(self, reads: ObjectReads, bucket: str, shards: Sequence[PackShard], directory: Path) -> None:
        self._reads = reads
        self._bucket = bucket
        self.shards: Sequence[PackShard] = shards
        self._directory = directory

    async def members(self) -> AsyncIterator[PackedMember]:
        """Yields the members. Raises ForebayError."""
        for number, shard in enumerate(self.shards):
            part = ObjectName(self._bucket, shard.key + PART_SUFFIX)
            async for member in IndexSource(await fetch_index(self._reads, part, self._directory)).members():
                yield member._replace(shard=number)


class MergedMembers:
    """The members of several sources, of which later ones count, with shards numbered over all of them."""

    def __init__(self, sources: Sequence[MemberSource], is_kept: Callable[[str], bool] = lambda _key: True) -> None:
        self._sources = list(sources)
        self._is_kept = is_kept
        numbers: dict[PackShard, int] = {}
        self._numbers = [
            [numbers.setdefault(shard, len(numbers)) for shard in source.shards] for source in self._sources
        ]
        self.shards = list(numbers)

    async def members(self) -> AsyncIterator[PackedMember]:
        """Yields the members, in order. Raises ForebayError."""
        streams = [aiter(source.members()) for source in self._sources]
        heads = [await anext(stream, None) for stream in streams]
        while any(heads):
            key = min(head.key for head in heads if head is not None)
            chosen: PackedMember | None = None
            for number, head in enumerate(heads):
                if head is not None and head.key == key:
                    chosen = head._replace(shard=self._numbers[number][head.shard])
                    heads[number] = await anext(streams[number], None)
            if chosen is not None and self._is_kept(key):
                yield chosen


async def publish_index(
    merged: MergedMembers,
    prefix: str,
    index: MultipartWriter,
    references: MultipartWriter,
    created_at: float,
) -> int:
    """Writes both. Returns the number of members. `prefix`: of all keys; `created_at`: seconds since the epoch. Raises
    ForebayError."""
    urls = [json.dumps(f"s3://{index.name.bucket}/{shard.key}") for shard in merged.shards]
    separator = ""
    try:
        await references.write(REFERENCES_BEGIN)
        async for member in merged.members():
            await references.write(reference_entry(separator, member, urls).encode())
            separator = ","
        await references.write(REFERENCES_END)
        await references.finish()
        writer = IndexWriter()
        async for member in merged.members():
            if piece := writer.add(member):
                await index.write(piece)
        await index.write(writer.finish([prefix], merged.shards, created_at))
        await index.finish()
    except BaseException:
        await references.abort()
        await index.abort()
        raise
    return writer.members
