"""Listing changes: cached heads are forgotten where a new snapshot of the namespace contradicts them.

    new snapshot ──> keys with another entry than before, or none, or written since the one before began
                       ├──> heads of this worker  ─┐
                       └──> heads of the others   ─┴─> another version than the entry's: forgotten, in all workers

One worker has the snapshots of a namespace, and each may have heads that the others have not.
"""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, NamedTuple

from forebay.core.errors import StorageError
from forebay.core.events import HeadsCompared, Observe
from forebay.core.names import ObjectName
from forebay.metadata.head_replacement import HeadReplacement
from forebay.metadata.listed_heads import is_same
from forebay.metadata.object_heads import ObjectHeads
from forebay.namespace.snapshot import Snapshot
from forebay.peers.owners import Peers
from forebay.protocol.xml.entry_rows import EntryRows
from forebay.protocol.xml.listed_page import EntryFacts, entry_facts

_AT_ONCE: Final = 1000
"""Keys in one message to the other workers."""


class RelistedKey(NamedTuple):
    """A key of a new snapshot. `facts` None: there is no object."""

    key: str
    facts: EntryFacts | None


class ListingChanges:
    """Compares snapshots with the cached heads."""

    def __init__(self, heads: ObjectHeads, replacement: HeadReplacement, peers: Peers, observe: Observe) -> None:
        self._heads = heads
        self._replacement = replacement
        self._peers = peers
        self._observe = observe

    async def compare(self, old: Snapshot, new: Snapshot) -> None:
        """Forgets the cached heads, in all workers, of objects of which `old` and `new` have different entries, or one
        has none. Raises nothing: what can't be compared is revalidated as ever."""
        relisted: list[RelistedKey] = []
        try:
            async for key, facts in _differences(old, new):
                # A write through Forebay has forgotten its head already, and what was read since is newer.
                if not new.overlay.is_written(key):
                    relisted.append(RelistedKey(key, entry_facts(facts) if facts is not None else None))
                if len(relisted) >= _AT_ONCE:
                    await self._apply(new, relisted)
                    relisted = []
        except StorageError:
            pass
        await self._apply(new, relisted)

    async def _apply(self, new: Snapshot, relisted: Sequence[RelistedKey]) -> None:
        if relisted:
            message = {"kind": "relisted", "bucket": new.bucket, "listed_at": new.started_at, "keys": relisted}
            await asyncio.gather(
                self.forget_replaced(new.bucket, new.started_at, relisted), self._peers.call_all(message)
            )

    async def forget_replaced(self, bucket: str, listed_at: float, relisted: Sequence[RelistedKey]) -> None:
        """Forgets the heads, among those of this worker, that were validated before `listed_at` and are of another
        version than the listing has."""
        dropped = 0
        for key, facts in relisted:
            name = ObjectName(bucket, key)
            head = self._heads.current(name)
            if head is None or head.validated_at >= listed_at:
                continue
            if facts is None or not is_same(facts, head):
                await self._replacement.remove(name, head)
                dropped += 1
        self._observe(HeadsCompared(dropped))


def decode_relisted(document: Any) -> list[RelistedKey]:
    """Returns the keys of a `relisted` message. Raises the errors of peers.peer_codec.decode."""
    return [
        RelistedKey(str(key), None if facts is None else EntryFacts(str(facts[0]), str(facts[1]), int(facts[2])))
        for key, facts in document
    ]


async def _differences(old: Snapshot, new: Snapshot) -> AsyncIterator[tuple[str, str | None]]:
    """Keys of either with their entries in `new` (None: it has none) where that differs, or which were written since
    `old` began."""
    position = ""
    while True:
        blocks = [await each.block_behind(position, inclusive=False) for each in (old, new)]
        end = min((block.keys[-1] for block in blocks if isinstance(block, EntryRows)), default=None)
        before, now = (_entries(block, position, end) if isinstance(block, EntryRows) else {} for block in blocks)
        written = set(old.overlay.between(position, end, inclusive=False))
        for key in before | now | dict.fromkeys(written):
            if key in written or before.get(key) != now.get(key):
                yield key, now.get(key)
        if end is None:
            return
        position = end
        await asyncio.sleep(0)


def _entries(block: EntryRows, after: str, end: str | None) -> dict[str, str]:
    """The entries of a block behind `after`, up to `end`."""
    first, stop = bisect_right(block.keys, after), len(block.keys) if end is None else bisect_right(block.keys, end)
    return {block.keys[number]: block.facts(number) for number in range(first, stop)}
