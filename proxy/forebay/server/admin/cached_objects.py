"""The cached objects under a prefix, in pages: the memory tiers' and the SSD tier's, merged in the order of their keys.

A *cache view* is one worker's: its memory, and the SSD tier, which all workers share, so that only the first view lists
it. The SSD tier lists from a cursor; memory is scanned anew for each page, in steps between which the loop runs. The
token at the end of a page contains both: the SSD tier's cursor, and the last key.
"""

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from heapq import nsmallest
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from forebay.core.byte_ranges import block_count, block_span
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.server.admin.schema.admin_schema import CacheEntry, CachePage

if TYPE_CHECKING:  # the supervisor, which reads workers' views, starts without the tiers' libraries
    from forebay.storage.tiers import Tiers


class SsdEntry(NamedTuple):
    """An object of the SSD tier, and the cursor of the next page behind it."""

    key: str
    head: Head
    cursor: bytes


class ResidentBlocks(NamedTuple):
    """The blocks of one version that a view has. Bitmaps in hexadecimal, the lowest bit for the first block: JSON has
    no integers of that length."""

    memory: str
    ssd: str
    ssd_bytes: int


_KEPT: Final = 4
"""Pages of keys that are kept while the first page is looked for."""


def _first(heads: dict[str, Head], limit: int) -> dict[str, Head]:
    """The heads of the first `limit` keys."""
    return {key: heads[key] for key in nsmallest(limit, heads)}


class CacheView(Protocol):
    """The cached objects of one worker."""

    async def memory_heads(self, bucket: str, prefix: str, after: str, limit: int) -> dict[str, Head]:
        """The heads in memory of the first `limit` objects whose keys are beyond `after`, by key."""
        ...

    async def ssd_entries(self, bucket: str, prefix: str, cursor: bytes, limit: int) -> list[SsdEntry]:
        """The next `limit` objects of the SSD tier; fewer only at the end."""
        ...

    async def resident_blocks(self, versions: list[tuple[ObjectName, Head]]) -> list[ResidentBlocks]:
        """The blocks of each of these versions that are in a tier."""
        ...


class LocalCacheView:
    """The view of the worker that it is called in."""

    def __init__(self, tiers: "Tiers") -> None:
        self._tiers = tiers

    async def memory_heads(self, bucket: str, prefix: str, after: str, limit: int) -> dict[str, Head]:
        """The heads in this worker's memory."""
        found: dict[str, Head] = {}
        for step in self._tiers.memory.objects.listing(bucket, prefix):
            found |= {each.name.key: each.head for each in step if each.head is not None and each.name.key > after}
            if len(found) > _KEPT * limit:  # else the last step would be among all of them
                found = _first(found, limit)
            await asyncio.sleep(0)
        return _first(found, limit)

    async def ssd_entries(self, bucket: str, prefix: str, cursor: bytes, limit: int) -> list[SsdEntry]:
        """The objects of the SSD tier; none without one."""
        if self._tiers.ssd is None:
            return []
        found: list[SsdEntry] = []
        # The tier may give fewer at a time, because it scans no more names than it may return.
        while len(found) < limit and (
            listed := await self._tiers.ssd.listing(bucket, prefix, cursor, limit - len(found))
        ):
            found += [SsdEntry(each.name.key, each.head, each.cursor) for each in listed]
            cursor = found[-1].cursor
        return found

    async def resident_blocks(self, versions: list[tuple[ObjectName, Head]]) -> list[ResidentBlocks]:
        """The blocks in this worker's memory and in the SSD tier."""
        return [await self._resident_blocks(name, head) for name, head in versions]

    async def _resident_blocks(self, name: ObjectName, head: Head) -> ResidentBlocks:
        tier, memory, ssd = self._tiers.ssd, 0, 0
        for number in range(block_count(head.size, head.block_size)):
            block = BlockId(name, head.generation, number)
            memory |= self._tiers.memory.has(block) << number
            ssd |= (tier is not None and tier.has(block)) << number
        return ResidentBlocks(f"{memory:x}", f"{ssd:x}", await tier.cached_bytes(name, head) if tier is not None else 0)


class _PageToken(NamedTuple):
    cursor: bytes
    key: str


async def list_cached_objects(
    views: Sequence[CacheView], bucket: str, prefix: str, after: str, limit: int
) -> CachePage:
    """A page of at most `limit` objects. `after`: the `next` of the page before; one that can't be read begins at the
    start."""
    token = _read_token(after)
    in_memory = await asyncio.gather(*(view.memory_heads(bucket, prefix, token.key, limit) for view in views))
    on_ssd = await views[0].ssd_entries(bucket, prefix, token.cursor, limit) if views else []
    cursors = {entry.key: entry.cursor for entry in on_ssd}
    heads = {entry.key: entry.head for entry in on_ssd}
    for found in in_memory:
        for key, head in found.items():
            if key not in heads or head.validated_at > heads[key].validated_at:
                heads[key] = head
    # A source that gave `limit` objects may have more behind its last: keys beyond that wait for the next page.
    ends = [max(found) for found in in_memory if len(found) == limit]
    ends += [on_ssd[-1].key] if len(on_ssd) == limit else []
    keys = [key for key in sorted(heads) if not ends or key <= min(ends)]
    page = keys[:limit]
    versions = [(ObjectName(bucket, key), heads[key]) for key in page]
    resident = await asyncio.gather(*(view.resident_blocks(versions) for view in views))
    objects = tuple(_entry(name, head, [view[nth] for view in resident]) for nth, (name, head) in enumerate(versions))
    if len(page) == len(keys) and not ends:
        return CachePage(objects, None)
    cursor = next((cursors[key] for key in reversed(page) if key in cursors), token.cursor)
    return CachePage(objects, _write_token(_PageToken(cursor, page[-1] if page else token.key)))


def _entry(name: ObjectName, head: Head, views: Sequence[ResidentBlocks]) -> CacheEntry:
    memory = either = 0
    for view in views:
        memory |= int(view.memory, 16)
        either |= int(view.memory, 16) | int(view.ssd, 16)
    return CacheEntry(
        name.bucket,
        name.key,
        size=head.size,
        etag=head.version.etag,
        memory=_bytes(memory, head),
        ssd=views[0].ssd_bytes if views else 0,
        cached=_bytes(either, head),
        validated_at=head.validated_at,
    )


def _bytes(blocks: int, head: Head) -> int:
    return sum(block_span(number, head.block_size, head.size).length for number in _bits(blocks))


def _bits(blocks: int) -> Iterator[int]:
    for number, bit in enumerate(reversed(f"{blocks:b}")):
        if bit == "1":
            yield number


def _read_token(text: str) -> _PageToken:
    try:
        cursor, key = json.loads(base64.urlsafe_b64decode(text.encode()))
        return _PageToken(bytes.fromhex(cursor), str(key))
    except (ValueError, TypeError):
        return _PageToken(b"", "")


def _write_token(token: _PageToken) -> str:
    return base64.urlsafe_b64encode(json.dumps([token.cursor.hex(), token.key]).encode()).decode()
