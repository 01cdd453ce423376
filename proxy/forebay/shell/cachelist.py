"""What is cached under a prefix, in pages: the memory tier's objects and the SSD tier's, merged in the order of their
keys.

The SSD tier lists from a cursor; memory is looked through anew for each page, in steps between which the loop runs. The
token that a page ends with holds both: where the SSD listing goes on, and the last key.
"""

import asyncio
import base64
import json
from heapq import merge
from typing import NamedTuple

from forebay.shell.admin.control import CachedObject, Listing
from forebay.stores.ssd.tier import Listed
from forebay.stores.tiers import Tiers
from forebay.words.heads import Head
from forebay.words.names import BlockId, ObjectName
from forebay.words.ranges import block_count, block_span


class _Token(NamedTuple):
    cursor: bytes
    key: str


async def cached_objects(tiers: Tiers, bucket: str, prefix: str, after: str, limit: int) -> Listing:
    """At most `limit` objects. `after`: the `next` of the page before; one that means nothing begins at the start."""
    token = _read_token(after)
    in_memory = await _in_memory(tiers, bucket, prefix, token.key)
    on_ssd: list[Listed] = []
    if tiers.ssd is not None:
        on_ssd = await tiers.ssd.listing(bucket, prefix, token.cursor, limit)
    cursors = {listed.name.key: listed.cursor for listed in on_ssd}
    heads = {listed.name.key: listed.head for listed in on_ssd} | in_memory
    # Beyond the SSD page's end its objects are not known yet, so memory's must wait for the next page too.
    last = on_ssd[-1].name.key if len(on_ssd) == limit else None
    keys = [key for key in _distinct(sorted(in_memory), sorted(cursors)) if last is None or key <= last]
    page = keys[:limit]
    objects = tuple([await _cached(tiers, ObjectName(bucket, key), heads[key]) for key in page])
    if len(page) == len(keys) and last is None:
        return Listing(objects, None)
    cursor = next((cursors[key] for key in reversed(page) if key in cursors), token.cursor)
    return Listing(objects, _write_token(_Token(cursor, page[-1])))


async def _in_memory(tiers: Tiers, bucket: str, prefix: str, after: str) -> dict[str, Head]:
    found: dict[str, Head] = {}
    for step in tiers.memory.listing(bucket, prefix):
        found |= {each.name.key: each.head for each in step if each.head is not None and each.name.key > after}
        await asyncio.sleep(0)
    return found


async def _cached(tiers: Tiers, name: ObjectName, head: Head) -> CachedObject:
    memory = 0
    either = 0
    for number in range(block_count(head.size, head.block_size)):
        block = BlockId(name, head.generation, number)
        length = block_span(number, head.block_size, head.size).length
        in_memory = tiers.memory.has(block)
        memory += length if in_memory else 0
        either += length if in_memory or (tiers.ssd is not None and tiers.ssd.has(block)) else 0
    ssd = await tiers.ssd.cached(name, head) if tiers.ssd is not None else 0
    return CachedObject(name, head.size, head.version.etag, memory, ssd, either, head.validated_at)


def _distinct(*sorted_keys: list[str]) -> list[str]:
    return list(dict.fromkeys(merge(*sorted_keys)))


def _read_token(text: str) -> _Token:
    try:
        cursor, key = json.loads(base64.urlsafe_b64decode(text.encode()))
        return _Token(bytes.fromhex(cursor), str(key))
    except (ValueError, TypeError):
        return _Token(b"", "")


def _write_token(token: _Token) -> str:
    return base64.urlsafe_b64encode(json.dumps([token.cursor.hex(), token.key]).encode()).decode()
