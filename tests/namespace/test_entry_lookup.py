"""What the origin says of written keys, and when it is kept."""

from pathlib import Path

import pytest

from forebay.core.fences import Fences, InDoubtWrites, Tick
from forebay.core.names import ObjectName
from forebay.namespace.entry_lookup import EntryLookup
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.snapshot import Snapshot
from forebay.namespace.snapshot_file import SnapshotFile
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm


class _WrittenMeanwhile:
    """An origin without objects; while it answers, the fence of a key is raised."""

    def __init__(self, fences: Fences, written: str) -> None:
        self._fences = fences
        self._written = written

    async def fetch(self, wanted: PageRequest, _form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        self._fences.raise_object(ObjectName(wanted.bucket, self._written))
        return ListedEntries([], [], is_truncated=False, max_keys="1000")


@pytest.mark.parametrize("count", [2, 20])
async def test_no_answer_outlives_a_write_during_its_request(tmp_path: Path, count: int) -> None:
    keys = [f"k{number:02}" for number in range(count)]
    fences = Fences()
    snapshot = Snapshot("b", "", SnapshotFile(tmp_path, 1 << 20), ListingForm(), 0.0, Tick(0))
    for key in keys:
        snapshot.overlay.mark(key)
    lookup = EntryLookup(_WrittenMeanwhile(fences, keys[0]), fences, InDoubtWrites(), lambda: 0.0)
    await lookup.learn(snapshot, keys, lookup.known_keys(snapshot))
    assert snapshot.overlay.known(keys[0]) is None, "written since the request"
    assert snapshot.overlay.known(keys[1]) is not None


@pytest.mark.parametrize("count", [2, 20])
async def test_what_the_origin_says_of_a_write_in_doubt_is_of_one_page(tmp_path: Path, count: int) -> None:
    """It may still carry the write out."""
    keys = [f"k{number:02}" for number in range(count)]
    fences, doubts = Fences(), InDoubtWrites()
    snapshot = Snapshot("b", "", SnapshotFile(tmp_path, 1 << 20), ListingForm(), 0.0, Tick(0))
    for key in keys:
        snapshot.overlay.mark(key)
    lookup = EntryLookup(_WrittenMeanwhile(fences, "another"), fences, doubts, lambda: 0.0)
    await lookup.learn(snapshot, keys[1:], lookup.known_keys(snapshot))
    doubts.mark_object(ObjectName("b", keys[0]), 10.0)
    doubts.mark_object(ObjectName("b", keys[1]), 10.0)
    assert keys[1] not in lookup.known_keys(snapshot), "it was learnt before the write"
    known = lookup.known_keys(snapshot)
    await lookup.learn(snapshot, keys[:1], known)
    assert (keys[0] in known, known.facts(keys[0])) == (True, None)
    assert snapshot.overlay.known(keys[0]) is None
    assert keys[0] not in lookup.known_keys(snapshot)
