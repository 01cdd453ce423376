"""A reader's track: which recordings come of its reads, and which it goes along."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from forebay.core.events import ReaderKey
from forebay.core.read_log import read_hash
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.plan_window import PlanStart
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.reader_track import NEW_RUN_AFTER, ReaderTrack
from forebay.jobs.recordings.recording import Recording
from forebay.protocol.recordings.read_columns import ReadColumns
from harness.loader_orders import arrivals, hashes_of, sample_keys, shuffled, whole_reads
from harness.recording_content import keys_in

KEYS = sample_keys(800)
ORDERS = [shuffled(KEYS, seed) for seed in range(6)]


class TrackListener:
    """Notes what it is called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []
        self.start: Callable[[], PlanStart] = PlanStart

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        return recording.principal != "secretive" or reader.principal == "secretive"

    def followed(
        self, reader: ReaderKey, recording: Recording, start: Callable[[], PlanStart], *, missed: bool
    ) -> None:
        self.calls.append(("followed", recording.name))
        self.start = start

    def position_advanced(self, reader: ReaderKey, *, missed: bool) -> None:
        pass

    def ended(self, reader: ReaderKey, *, parted: bool) -> None:
        self.calls.append(("ended", parted))


class TrackRig:
    def __init__(self, directory: Path) -> None:
        self.now = 1_000_000.0
        self.catalogue = RecordingCatalogue(directory, 1 << 24, TaskRegistry(), lambda: self.now)
        self.listener = TrackListener()
        self.track = self.reader("user")

    def reader(self, principal: str) -> ReaderTrack:
        return ReaderTrack(ReaderKey("bucket", "set", principal), self.catalogue, self.listener, lambda: self.now)

    def read(self, keys: list[str], *, records: bool = True, follows: bool = True, step: int = 20) -> None:
        for start in range(0, len(keys), step):
            self.now += 1.0
            part = keys[start : start + step]
            reads = ReadColumns.of(whole_reads(part))
            self.track.observe(reads, hashes_of(part), records=records, follows=follows)

    async def recorded(self) -> list[list[str]]:
        found = [each for each in self.catalogue.recordings if each.state != "recording"]
        return [keys_in(await self.catalogue.read(each)) for each in found]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[TrackRig]:
    made = TrackRig(tmp_path)
    await made.catalogue.open()
    yield made
    await made.catalogue.close()


async def test_each_epoch_is_a_recording_of_one_run(rig: TrackRig) -> None:
    rig.read(ORDERS[0] + ORDERS[1] + ORDERS[2])
    rig.track.end()
    assert [len(each) for each in await rig.recorded()] == pytest.approx([800] * 3, abs=20)
    assert [each.epoch for each in rig.catalogue.recordings] == [1, 2, 3]
    assert len({each.run for each in rig.catalogue.recordings}) == 1
    assert rig.listener.calls == []


async def test_only_an_epoch_that_is_read_into_the_next_is_whole(rig: TrackRig) -> None:
    rig.read(ORDERS[0] + ORDERS[1][:500])
    rig.track.end()
    assert [each.is_whole for each in rig.catalogue.recordings] == [True, False]


async def test_a_recording_that_is_repeated_to_its_end_is_whole(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    assert [each.is_whole for each in rig.catalogue.recordings] == [False]
    rig.now += NEW_RUN_AFTER + 1
    rig.read(ORDERS[0] + ORDERS[1])
    rig.track.end()
    assert [each.is_whole for each in rig.catalogue.recordings] == [True, False]


async def test_a_second_run_with_the_same_seed_is_followed(rig: TrackRig) -> None:
    rig.read(ORDERS[0] + ORDERS[1])
    rig.track.end()
    names = [each.name for each in rig.catalogue.recordings]
    rig.now += NEW_RUN_AFTER + 1
    rig.read(arrivals(ORDERS[0], 2, 8))
    rig.read(arrivals(ORDERS[1], 2, 8))
    assert [call for call in rig.listener.calls if call[0] == "followed"] == [("followed", name) for name in names]
    assert ("ended", True) not in rig.listener.calls
    rig.track.end()
    assert [each.name for each in rig.catalogue.recordings] == names, "the same reads are recorded once"


async def test_a_run_that_broke_off_is_followed_and_replaced(rig: TrackRig) -> None:
    rig.read(ORDERS[0][:500])
    rig.read(ORDERS[0])  # started again at once
    assert ("followed", rig.catalogue.recordings[0].name) in rig.listener.calls
    rig.track.end()
    assert await rig.recorded() == [pytest.approx(ORDERS[0])] or len((await rig.recorded())[0]) >= 780
    assert len(rig.catalogue.recordings) == 1


async def test_a_reader_that_parts_is_noticed_soon(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rig.listener.calls.clear()
    rig.read(ORDERS[0][:200] + ORDERS[1][:100], records=False)
    assert rig.listener.calls == [("followed", rig.catalogue.recordings[0].name), ("ended", True)]


async def test_a_reader_recognised_at_the_end_has_not_parted(rig: TrackRig) -> None:
    """It stops there: its track ends before another read shows that it is at the end."""
    rig.read(ORDERS[0])
    rig.track.end()
    rig.listener.calls.clear()
    rig.read(ORDERS[0][-20:])
    assert [call[0] for call in rig.listener.calls] == ["followed"]
    rig.track.end()
    assert rig.listener.calls[1:] == [("ended", False)]


async def test_a_recording_parted_from_twice_is_not_tried_again(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rig.listener.calls.clear()
    new = [f"new/{number}" for number in range(600)]
    for nth in range(4):
        rig.read(ORDERS[0][nth * 100 : nth * 100 + 40], records=False)
        rig.read(new[nth * 100 : nth * 100 + 100], records=False)
    assert [call[0] for call in rig.listener.calls].count("followed") == 2


async def test_nothing_is_followed_where_the_rule_does_not(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rig.read(ORDERS[0], follows=False)
    rig.track.end()
    assert rig.listener.calls == []
    assert len(rig.catalogue.recordings) == 1, "known all the same"


async def test_nothing_is_recorded_where_the_rule_does_not(rig: TrackRig) -> None:
    rig.read(ORDERS[0], records=False)
    rig.track.end()
    assert rig.catalogue.recordings == []


async def test_what_a_reader_may_not_follow_is_no_candidate(rig: TrackRig) -> None:
    rig.track = rig.reader("secretive")
    rig.read(ORDERS[0])
    rig.track.end()
    rig.track = rig.reader("user")
    rig.read(ORDERS[0][:200])
    assert rig.listener.calls == []


async def test_another_principal_with_the_same_order_follows(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rig.track = rig.reader("other")
    rig.read(ORDERS[0][:200])
    assert rig.listener.calls == [("followed", rig.catalogue.recordings[0].name)]
    assert rig.listener.start().front == 200


async def test_a_plan_begins_with_what_the_rearmost_worker_has_yet_to_read(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    begun = [key for pair in zip(ORDERS[0][:16], ORDERS[0][16:32], strict=True) for key in pair][:24]
    rig.read(begun)
    start = rig.listener.start()
    assert (start.position, start.front) == (0, 28)
    assert read_before(start) == set(begun)


async def test_reads_of_the_epoch_before_are_none_of_a_plans(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rig.read(ORDERS[1] + ORDERS[0][:100], records=False)
    start = rig.listener.start()
    assert start.front == 100
    assert read_before(start) <= set(ORDERS[0][:100])


def read_before(start: PlanStart) -> set[str]:
    return {key for key in KEYS if read_hash(key, 0) in start.read}


async def test_a_removed_recording_is_not_recognised(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rig.catalogue.remove(rig.catalogue.recordings[0])
    rig.read(ORDERS[0][:200])
    assert rig.listener.calls == []


async def test_a_pause_ends_the_epoch_and_the_run(rig: TrackRig) -> None:
    rig.read(ORDERS[0][:300])
    rig.now += NEW_RUN_AFTER + 1
    rig.read(ORDERS[1][:300])
    rig.track.end()
    first, second = rig.catalogue.recordings
    assert first.run != second.run
    assert (first.epoch, second.epoch) == (1, 1)


async def test_an_epoch_that_is_repeated_is_not_written(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    for start in range(0, 800, 20):
        rig.read(ORDERS[0][start : start + 20])
        assert len(rig.catalogue.recordings) == 1
    rig.track.end()
    assert await rig.recorded() == [ORDERS[0]]


@pytest.mark.parametrize("step", [20, 600])
async def test_what_parts_from_a_recording_is_recorded_whole(rig: TrackRig, step: int) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rest = [f"new/{number}" for number in range(300)]
    rig.read(ORDERS[0][:400] + rest, step=step)
    rig.track.end()
    first, second = await rig.recorded()
    assert first == ORDERS[0]
    assert second[:390] == ORDERS[0][:390]
    assert set(rest) <= set(second)
    assert len(second) == pytest.approx(700, abs=20)
    index = rig.catalogue.recordings[1].index
    assert index.count == len(second) == rig.catalogue.recordings[1].reads


async def test_what_goes_on_behind_a_removed_recording_is_recorded(rig: TrackRig) -> None:
    rig.read(ORDERS[0])
    rig.track.end()
    rest = [f"new/{number}" for number in range(300)]
    rig.read(ORDERS[0][:400])
    rig.catalogue.remove(rig.catalogue.recordings[0])
    rig.read(rest)
    rig.track.end()
    [only] = await rig.recorded()
    assert set(rest) <= set(only)
    assert rig.catalogue.recordings[0].reads == len(only)


async def test_several_epochs_in_one_batch_are_told_apart(rig: TrackRig) -> None:
    for _ in range(3):
        rig.read(ORDERS[0] + ORDERS[0] + ORDERS[0], step=1000)
    assert ("ended", True) not in rig.listener.calls
    rig.track.end()
    assert len(await rig.recorded()) == 1


@pytest.mark.parametrize("repeats", [False, True])
async def test_a_kill_costs_no_read_that_was_saved(rig: TrackRig, tmp_path: Path, repeats: bool) -> None:
    if repeats:
        rig.read(ORDERS[0])
        rig.track.end()
    rest = [f"new/{number}" for number in range(300)]
    rig.read(ORDERS[0][:200] + rest)
    rig.track.save()
    rig.read(rest[280:] + ORDERS[1][:30])
    await rig.catalogue.close()  # as a kill leaves it: nothing was ended
    rig.catalogue = RecordingCatalogue(tmp_path, 1 << 24, TaskRegistry(), lambda: rig.now)
    await rig.catalogue.open()
    found = (await rig.recorded())[-1]
    assert len(found) == pytest.approx(500, abs=10)
    assert set(found) == set(ORDERS[0][:200] + rest) or repeats
    assert set(rest) <= set(found)
