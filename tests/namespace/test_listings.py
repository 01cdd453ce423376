"""Listings of one worker: when a page is answered, and when the origin has to."""

import asyncio
from pathlib import Path
from typing import Any

from forebay.core.errors import StorageError
from forebay.core.events import Event, ListingAnswered, SnapshotEnded
from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.namespace.entry_lookup import EntryLookup
from forebay.namespace.listings import Listings
from forebay.namespace.namespaces import MAX_NAMESPACES, Namespaces
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.snapshots import Snapshots
from forebay.namespace.write_overlay import MAX_WRITTEN
from forebay.policy.listing_scopes import ListingScope, ListingScopes
from forebay.protocol.listing_query import ListingQuery, StartPoint
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm
from forebay.settings.freshness_values import Immutable, MaxAge
from forebay.settings.rule_settings import Rule
from harness.listed_keys import ListedKeys, damage_snapshots

QUERY = ListingQuery(2, "bucket", "", "", StartPoint(), None)


class Origin(ListedKeys):
    def speaks_oss(self, _bucket: str) -> bool:
        return False


class Subject:
    """Listings over keys in memory, with a clock of their own."""

    def __init__(self, directory: Path, origin: ListedKeys, *, wait: float = 5.0, **options: Any) -> None:
        self.now, self.events, self.tasks = 1000.0, list[Event](), TaskRegistry()
        self.fences, self.in_doubt_writes = Fences(), InDoubtWrites()
        listing = options.get("listing", MaxAge(600))
        source: Any = origin
        written = self.fences, self.in_doubt_writes
        self.snapshots = Snapshots(
            source,
            Namespaces(directory, options.get("capacity", 1 << 30)),
            *written,
            self.tasks,
            self.events.append,
            lambda: self.now,
            release_memory=lambda: self.released.append(self.snapshots.states()),
        )
        self.listings = Listings(
            source,
            self.snapshots,
            EntryLookup(source, *written, lambda: self.now),
            lambda: ListingScopes([Rule(options.get("path", "**"), listing=listing)]),
            self.events.append,
            wait,
        )
        self.released: list[object] = []

    async def source(self, query: ListingQuery = QUERY) -> str | None:
        answer = await self.listings.answer(query)
        return answer.source if answer is not None else None

    def ended(self) -> list[str]:
        return [each.result for each in self.events if isinstance(each, SnapshotEnded)]


async def test_memory_is_released_behind_a_walk(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin({"a", "b"}))
    assert await subject.source() == "miss"
    await subject.tasks.wait_idle()
    assert await subject.source() == "hit-ssd"
    assert len(subject.released) == 1


async def test_a_walk_too_slow_for_a_client_leaves_the_page_to_the_origin(tmp_path: Path) -> None:
    class Hanging(Origin):
        async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
            if self.requests:
                await asyncio.Event().wait()
            return await super().fetch(wanted, form, is_awaited=is_awaited)

    subject = Subject(tmp_path, Hanging([f"{number:04d}" for number in range(2000)]), wait=0.01)
    assert await subject.source() is None
    assert subject.events == [ListingAnswered("passed_on")]
    await subject.tasks.close()


async def test_a_doubt_about_the_whole_bucket_passes_listings_on(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a"]), listing=Immutable())
    assert await subject.source() == "miss"
    subject.in_doubt_writes.mark_bucket("bucket", subject.now + 900)
    assert await subject.source() is None
    subject.now += 901  # what was listed during the doubt proves nothing after it, what is listed then does
    assert await subject.source() == "miss"


async def test_nothing_is_listed_in_doubt_about_the_whole_bucket(tmp_path: Path) -> None:
    subject = Subject(tmp_path, origin := Origin(["a"]))
    subject.in_doubt_writes.mark_bucket("bucket", subject.now + 900)
    assert await subject.source() is None
    assert origin.requests == []


async def test_a_snapshot_with_too_many_written_keys_is_listed_anew(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a"]))
    await subject.source()
    for number in range(MAX_WRITTEN + 1):
        subject.snapshots.fence(ObjectName("bucket", f"b{number:07}"))
    assert await subject.source() == "miss"
    assert await subject.source() == "hit-ssd"


async def test_damage_of_an_older_snapshot_drops_no_newer_one(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a"]))
    await subject.source()
    older = subject.snapshots.fresh("bucket", ListingScope("", MaxAge(600)))
    assert older is not None
    subject.now += 601
    assert await subject.source() == "miss"
    subject.snapshots.drop_damaged(older, StorageError("damaged"))
    assert await subject.source() == "hit-ssd"


async def test_a_clock_that_was_set_back_lists_anew(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a"]))
    await subject.source()
    subject.now -= 100
    assert await subject.source() == "miss"


async def test_an_immutable_listing_is_never_old(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a"]), listing=Immutable())
    await subject.source()
    subject.now += 10**9
    assert await subject.source() == "hit-ssd"


async def test_a_failed_walk_is_not_repeated_at_once(tmp_path: Path) -> None:
    origin = Origin(["a"])
    origin.fails_behind = ""
    subject = Subject(tmp_path, origin)
    assert await subject.source() is None
    origin.fails_behind = None
    assert await subject.source() is None
    assert len(origin.requests) == 1
    subject.now += 31
    assert await subject.source() == "miss"
    assert subject.ended() == ["failed", "complete"]


async def test_a_directory_that_cannot_be_used_passes_listings_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")  # a small file
    subject = Subject(tmp_path / "file", Origin(["a"]))
    assert await subject.source() is None
    assert subject.ended() == ["failed"]


async def test_the_number_of_namespaces_is_bounded(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a"]), path="**")
    for number in range(MAX_NAMESPACES + 5):
        await subject.source(ListingQuery(2, f"bucket-{number}", "", "", StartPoint(), None))
        await subject.tasks.wait_idle()
    assert len(subject.snapshots.states()) <= MAX_NAMESPACES + 1
    assert subject.snapshots.states()[-1].bucket == f"bucket-{MAX_NAMESPACES + 4}"


async def test_snapshots_give_way_to_newer_ones(tmp_path: Path) -> None:
    origin = Origin([f"{number:05d}" for number in range(2000)])
    subject = Subject(tmp_path, origin, capacity=60_000)
    for number in range(6):
        await subject.source(ListingQuery(2, f"bucket-{number}", "", "", StartPoint(), None))
        await subject.tasks.wait_idle()
    assert 1 <= len(subject.snapshots.states()) < 6
    assert subject.snapshots.size <= 60_000


async def test_the_state_of_a_namespace(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a", "b"]), path="bucket/**")
    await subject.source()
    await subject.tasks.wait_idle()
    subject.now += 7
    subject.snapshots.fence(ObjectName("bucket", "a"))
    subject.snapshots.fence(ObjectName("other", "a"))
    (state,) = subject.snapshots.states()
    assert (state.bucket, state.prefix, state.keys, state.age, state.written) == ("bucket", "", 2, 7.0, 1)
    assert not state.is_walking
    assert state.size == subject.snapshots.size > 0


async def test_an_entry_proves_nothing_of_a_written_key(tmp_path: Path) -> None:
    subject = Subject(tmp_path, Origin(["a", "b"]))
    await subject.source()
    entry = await subject.listings.entry(ObjectName("bucket", "a"))
    assert entry is not None
    assert (entry.facts.etag, entry.listed_at) == ('"a"', 1000.0)
    assert await subject.listings.entry(ObjectName("bucket", "aa")) is None
    subject.snapshots.fence(ObjectName("bucket", "a"))
    assert await subject.listings.entry(ObjectName("bucket", "a")) is None
    subject.in_doubt_writes.mark_object(ObjectName("bucket", "b"), subject.now + 1)
    assert await subject.listings.entry(ObjectName("bucket", "b")) is None


async def test_a_damaged_snapshot_proves_nothing(tmp_path: Path) -> None:
    keys = [f"{number:05d}" for number in range(12_000)]  # more blocks than are kept decoded
    subject = Subject(tmp_path, Origin(keys))
    await subject.source()
    await subject.tasks.wait_idle()
    for position in range(20, subject.snapshots.size, 10_000):
        assert damage_snapshots(tmp_path, position) == 1
    proven = [await subject.listings.entry(ObjectName("bucket", key)) for key in keys[::500]]
    assert None in proven
    assert not any(proven[proven.index(None) :]), "it is dropped"
    assert subject.ended() == ["complete", "damaged"]
    assert await subject.source() == "miss"


async def test_a_refresh_is_background_work_and_a_first_listing_is_not(tmp_path: Path) -> None:
    origin = Origin([f"{number:04d}" for number in range(2500)])
    subject = Subject(tmp_path, origin)
    assert await subject.source() == "miss"
    assert origin.awaited[0]
    await subject.tasks.wait_idle()
    origin.awaited.clear()
    subject.now += 301
    for _ in range(3):
        assert await subject.source() == "hit-ssd"
        assert len(subject.tasks) == 1
    await subject.tasks.wait_idle()
    assert set(origin.awaited) == {False}


async def test_a_walk_longer_than_the_rule_allows_is_given_up(tmp_path: Path) -> None:
    class Slow(Origin):
        async def fetch(self, wanted: PageRequest, form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
            subject.now += 5
            return await super().fetch(wanted, form, is_awaited=is_awaited)

    subject = Subject(tmp_path, Slow([f"{number:05d}" for number in range(20_000)]), listing=MaxAge(20))
    last = ListingQuery(2, "bucket", "", "", StartPoint("19000"), None)
    assert [await subject.source(last) for _ in range(3)].count(None) >= 2
    await subject.tasks.wait_idle()
    assert subject.ended() == ["failed"]
    found = subject.snapshots.namespaces.find("bucket", "")
    assert found is not None
    assert found.snapshots == [], "what it has listed is not whole"
