"""Which cached heads are forgotten when two snapshots of a namespace differ."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from forebay.core.events import Event, HeadsCompared
from forebay.core.fences import Tick
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.metadata.listing_changes import ListingChanges, RelistedKey, decode_relisted
from forebay.namespace.snapshot import Snapshot
from forebay.namespace.snapshot_file import SnapshotFile
from forebay.peers.owners import Peers
from forebay.protocol.xml.listed_page import EntryFacts, ListedEntries, ListingForm
from harness.listed_keys import damage_snapshots

MODIFIED = "Fri, 02 Jan 2026 03:04:05 GMT"
OLD, NEW = 1000.0, 2000.0
Listing = Mapping[str, str]
"""Keys with their ETags."""


def head_with(etag: str, validated_at: float = OLD) -> Head:
    return head_of(ObjectFacts(Version(f'"{etag}"'), 1, MODIFIED, ()), 1 << 20, validated_at)


def facts_with(etag: str) -> str:
    return f"<LastModified>2026-01-02T03:04:05Z</LastModified><ETag>&quot;{etag}&quot;</ETag><Size>1</Size>"


async def snapshot(directory: Path, began: float, listing: Listing, page: int = 1000) -> Snapshot:
    taken = Snapshot("bucket", "", SnapshotFile(directory, 1 << 20), ListingForm(), began, Tick(0))
    keys = sorted(listing)
    for first in range(0, max(1, len(keys)), page):
        shown = keys[first : first + page]
        entries = ListedEntries(shown, [facts_with(listing[key]) for key in shown], first + page < len(keys), "1000")
        await taken.add(taken.ranges[0], entries)
    return taken


class Subject:
    """Heads of one worker. Implements what ListingChanges needs of ObjectHeads and HeadReplacement."""

    def __init__(self, heads: Mapping[str, Head]) -> None:
        self.heads = dict(heads)
        self.events = list[Event]()
        double: Any = self
        self.changes = ListingChanges(double, double, Peers(), self.events.append)

    def current(self, name: ObjectName) -> Head | None:
        return self.heads.get(name.key)

    async def remove(self, name: ObjectName, head: Head) -> None:
        assert self.heads.pop(name.key) is head


@pytest.mark.parametrize("seed", range(20))
async def test_what_differs_is_forgotten_whatever_the_pages(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    keys = [f"{number:02}" for number in range(30)]

    def drawn() -> dict[str, str]:
        return {key: random.choice("ab") for key in random.sample(keys, random.randrange(len(keys)))}

    before, now, cached = drawn(), drawn(), {key: random.choice("ab") for key in keys}
    old = await snapshot(tmp_path, OLD, before, random.randrange(1, 9))
    new = await snapshot(tmp_path, NEW, now, random.randrange(1, 9))
    subject = Subject({key: head_with(etag) for key, etag in cached.items()})
    await subject.changes.compare(old, new)
    kept = {key for key in keys if before.get(key) == now.get(key) or now.get(key) == cached[key]}
    assert subject.heads.keys() == kept
    assert sum(each.dropped for each in subject.events if isinstance(each, HeadsCompared)) == len(keys) - len(kept)


async def test_what_was_written_since_the_older_one_counts_as_different(tmp_path: Path) -> None:
    old, new = await snapshot(tmp_path, OLD, {"m": "a"}), await snapshot(tmp_path, NEW, {"m": "a"})
    subject = Subject({"a": head_with("a"), "m": head_with("a"), "z": head_with("a")})
    for key in ("a", "m", "z"):
        old.overlay.mark(key)
    await subject.changes.compare(old, new)
    assert subject.heads.keys() == {"m"}


async def test_what_was_written_since_the_newer_one_is_kept(tmp_path: Path) -> None:
    old, new = await snapshot(tmp_path, OLD, {"m": "a"}), await snapshot(tmp_path, NEW, {"m": "b"})
    subject = Subject({"m": head_with("c")})
    new.overlay.mark("m")
    await subject.changes.compare(old, new)
    assert subject.heads


async def test_a_head_as_young_as_the_listing_is_kept(tmp_path: Path) -> None:
    old, new = await snapshot(tmp_path, OLD, {"m": "a"}), await snapshot(tmp_path, NEW, {})
    subject = Subject({"m": head_with("c", NEW)})
    await subject.changes.compare(old, new)
    assert subject.heads


async def test_a_damaged_snapshot_changes_nothing(tmp_path: Path) -> None:
    old, new = await snapshot(tmp_path, OLD, {"m": "a"}), await snapshot(tmp_path, NEW, {"m": "b"})
    subject = Subject({"m": head_with("a")})
    assert damage_snapshots(tmp_path) == 2
    await subject.changes.compare(old, new)
    assert subject.heads


def test_keys_of_a_message_are_what_was_sent() -> None:
    sent = [RelistedKey("a", EntryFacts("2026", '"e"', 7)), RelistedKey("b", None)]
    assert decode_relisted([["a", ["2026", '"e"', 7]], ["b", None]]) == sent
