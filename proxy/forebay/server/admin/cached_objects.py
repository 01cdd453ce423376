"""What is cached under a prefix, in pages: the memory tiers' objects and the SSD tier's, merged in the order of their
keys.

A *shelf* is one worker's view: its memory, and the SSD tier, which all share and the first shelf is asked about. The
SSD tier lists from a cursor; memory is looked through anew for each page, in steps between which the loop runs. The
token that a page ends with holds both: where the SSD listing goes on, and the last key.
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
from forebay.server.admin.admin_schema import CacheEntry, CachePage

if TYPE_CHECKING:  # the supervisor, which reads others' shelves, starts without what tiers are made of
    from forebay.storage.tiers import Tiers

PURGE_PAGE_SIZE: Final = 1000
"""Objects that a purge drops at once."""


class SsdEntry(NamedTuple):
    """An object of the SSD tier, and where a listing goes on behind it."""

    key: str
    head: Head
    cursor: bytes


class ResidentBlocks(NamedTuple):
    """What a shelf has of one version. A bit for each block, the lowest for the first."""

    memory: int
    ssd: int
    ssd_bytes: int


class CacheView(Protocol):
    """One worker's view."""

    async def memory_heads(self, bucket: str, prefix: str, after: str, limit: int) -> dict[str, Head]:
        """The first `limit` objects whose keys are beyond `after`, by key."""
        ...

    async def ssd_entries(self, bucket: str, prefix: str, cursor: bytes, limit: int) -> list[SsdEntry]:
        """The next `limit` objects; fewer only at the end."""
        ...

    async def resident_blocks(self, named: Sequence[tuple[ObjectName, Head]]) -> list[ResidentBlocks]: ...


class LocalCacheView:
    """This worker's."""

    def __init__(self, tiers: "Tiers") -> None:
        self._tiers = tiers

    async def memory_heads(self, bucket: str, prefix: str, after: str, limit: int) -> dict[str, Head]:
        found: dict[str, Head] = {}
        for step in self._tiers.memory.listing(bucket, prefix):
            found |= {each.name.key: each.head for each in step if each.head is not None and each.name.key > after}
            await asyncio.sleep(0)
        return {key: found[key] for key in nsmallest(limit, found)}

    async def ssd_entries(self, bucket: str, prefix: str, cursor: bytes, limit: int) -> list[SsdEntry]:
        if self._tiers.ssd is None:
            return []
        found: list[SsdEntry] = []
        # The tier may give fewer at a time, as it looks at no more names than it was asked for.
        while len(found) < limit and (
            listed := await self._tiers.ssd.listing(bucket, prefix, cursor, limit - len(found))
        ):
            found += [SsdEntry(each.name.key, each.head, each.cursor) for each in listed]
            cursor = found[-1].cursor
        return found

    async def resident_blocks(self, named: Sequence[tuple[ObjectName, Head]]) -> list[ResidentBlocks]:
        return [await self._resident_blocks(name, head) for name, head in named]

    async def _resident_blocks(self, name: ObjectName, head: Head) -> ResidentBlocks:
        tier, memory, ssd = self._tiers.ssd, 0, 0
        for number in range(block_count(head.size, head.block_size)):
            block = BlockId(name, head.generation, number)
            memory |= self._tiers.memory.has(block) << number
            ssd |= (tier is not None and tier.has(block)) << number
        return ResidentBlocks(memory, ssd, await tier.cached_bytes(name, head) if tier is not None else 0)


class _PageToken(NamedTuple):
    cursor: bytes
    key: str


async def list_cached_objects(
    shelves: Sequence[CacheView], bucket: str, prefix: str, after: str, limit: int
) -> CachePage:
    """At most `limit` objects. `after`: the `next` of the page before; one that means nothing begins at the start."""
    token = _read_token(after)
    by_shelf = await asyncio.gather(*(shelf.memory_heads(bucket, prefix, token.key, limit) for shelf in shelves))
    on_ssd = await shelves[0].ssd_entries(bucket, prefix, token.cursor, limit) if shelves else []
    cursors = {each.key: each.cursor for each in on_ssd}
    heads = {each.key: each.head for each in on_ssd}
    for found in by_shelf:
        for key, head in found.items():
            if key not in heads or head.validated_at > heads[key].validated_at:
                heads[key] = head
    # Beyond the end of what one of them gave, its objects are not known yet: the others' must wait for the next page.
    ends = [max(found) for found in by_shelf if len(found) == limit]
    ends += [on_ssd[-1].key] if len(on_ssd) == limit else []
    keys = [key for key in sorted(heads) if not ends or key <= min(ends)]
    page = keys[:limit]
    named = [(ObjectName(bucket, key), heads[key]) for key in page]
    held = await asyncio.gather(*(shelf.resident_blocks(named) for shelf in shelves))
    objects = tuple(_cached(name, head, [view[nth] for view in held]) for nth, (name, head) in enumerate(named))
    if len(page) == len(keys) and not ends:
        return CachePage(objects, None)
    cursor = next((cursors[key] for key in reversed(page) if key in cursors), token.cursor)
    return CachePage(objects, _write_token(_PageToken(cursor, page[-1] if page else token.key)))


def _cached(name: ObjectName, head: Head, views: Sequence[ResidentBlocks]) -> CacheEntry:
    memory = either = 0
    for view in views:
        memory |= view.memory
        either |= view.memory | view.ssd
    ssd = views[0].ssd_bytes if views else 0
    return CacheEntry(
        name, head.size, head.version.etag, _bytes(memory, head), ssd, _bytes(either, head), head.validated_at
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
