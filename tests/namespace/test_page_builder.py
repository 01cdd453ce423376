"""Pages of a snapshot with writes over it, against a listing of the same keys by the fake origin."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forebay.namespace.entry_lookup import KnownKeys
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.page_builder import UnknownKeys, build_page
from forebay.namespace.snapshot import Snapshot, Unlisted
from forebay.namespace.snapshot_walk import SnapshotWalk
from forebay.protocol.listing_query import ListingQuery, StartPoint
from forebay.protocol.xml.listing_document import PageEntries
from harness.listed_keys import ListedKeys, facts_of, snapshot_in

KEYS = st.text("ab/", min_size=1, max_size=5)


async def listed(directory: Path, keys: set[str], page: int = 3) -> Snapshot:
    snapshot = snapshot_in(directory)
    await SnapshotWalk(snapshot, ListedKeys(keys, page)).run()
    return snapshot


Comparable = tuple[list[str], list[str], list[str], bool]
"""Keys, their facts, common prefixes, and whether there are more."""


def expected_page(keys: set[str], prefix: str, delimiter: str, start: StartPoint, limit: int) -> Comparable:
    """By S3's rules, as plainly as possible."""
    names: dict[str, bool] = {}
    for key in sorted(keys):
        if not key.startswith(prefix):
            continue
        head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
        name = prefix + head + delimiter if found else key
        is_behind = not key.startswith(start.name) if start.kind == "prefix" else True
        if key > start.name and is_behind:
            names.setdefault(name, bool(found))
    shown = list(names.items())[:limit]
    entries = [name for name, rolled in shown if not rolled]
    prefixes = [name for name, rolled in shown if rolled]
    return entries, [facts_of(key) for key in entries], prefixes, len(names) > limit


def comparable(page: object) -> Comparable:
    assert isinstance(page, PageEntries), page
    keys = [key for run in page.runs for key in run.keys]
    facts = [run.rows.facts(position) for run in page.runs for position in range(run.first, run.stop)]
    return keys, facts, list(page.prefixes), page.is_truncated


@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.sets(KEYS, max_size=20),
    written=st.sets(KEYS, max_size=8),
    removed=st.sets(KEYS, max_size=8),
    prefix=st.text("ab/", max_size=2),
    delimiter=st.sampled_from(["", "/", "b", "//"]),
    after=st.text("ab/", max_size=3),
    limit=st.integers(0, 5),
)
async def test_a_page_is_as_s3_has_it(
    tmp_path: Path,
    before: set[str],
    written: set[str],
    removed: set[str],
    prefix: str,
    delimiter: str,
    after: str,
    limit: int,
) -> None:
    snapshot = await listed(tmp_path, before)
    now = (before | written) - removed
    for key in written | removed:
        snapshot.overlay.mark(key)
    start = StartPoint(after)
    behind = after[len(prefix) :] if after.startswith(prefix) else ""
    if delimiter and delimiter in behind and behind.find(delimiter) == len(behind) - len(delimiter):
        start = StartPoint(after, "prefix")
    query = ListingQuery(2, "bucket", prefix, delimiter, start, limit)
    known = KnownKeys(snapshot, lambda _: False)
    page = await build_page(snapshot, query, limit, known)
    rounds = 0
    while isinstance(page, UnknownKeys):
        assert page.keys == sorted(set(page.keys) & (written | removed))
        for key in page.keys:
            assert key not in known
            known.learn(key, facts_of(key) if key in now else None)
        page = await build_page(snapshot, query, limit, known)
        rounds += 1
        assert rounds < 40
    wanted = expected_page(now, prefix, delimiter, start, limit)
    if not limit:
        wanted = [], [], [], False
    assert comparable(page) == wanted


async def test_a_common_prefix_of_many_written_keys_needs_no_lookup(tmp_path: Path) -> None:
    snapshot = await listed(tmp_path, {"a", "b/z", "c"})
    for number in range(500):
        snapshot.overlay.mark(f"b/{number:03d}")
    query = ListingQuery(2, "bucket", "", "/", StartPoint(), None)
    page = await build_page(snapshot, query, 1000, KnownKeys(snapshot, lambda _: False))
    assert comparable(page)[2] == ["b/"]


async def test_keys_in_doubt_are_unknown(tmp_path: Path) -> None:
    snapshot = await listed(tmp_path, {"a", "b"})
    snapshot.overlay.mark("a")
    query = ListingQuery(2, "bucket", "", "", StartPoint(), None)
    known = KnownKeys(snapshot, lambda name: name.key == "a")
    assert await build_page(snapshot, query, 1000, known) == UnknownKeys(["a"])


@pytest.mark.parametrize(("prefix", "is_listed"), [("a", True), ("b", True), ("c", False), ("", False)])
async def test_a_part_with_a_gap_is_not_answered_from(tmp_path: Path, prefix: str, *, is_listed: bool) -> None:
    snapshot, origin = snapshot_in(tmp_path), ListedKeys({"a1", "b1", "c1", "d1"})
    page = await origin.fetch(PageRequest("bucket", "", "", 3), snapshot.form)
    await snapshot.add(snapshot.ranges[0], page)
    query = ListingQuery(2, "bucket", prefix, "", StartPoint(), None)
    built = await build_page(snapshot, query, 1000, KnownKeys(snapshot, lambda _: False))
    assert isinstance(built, Unlisted) is not is_listed
