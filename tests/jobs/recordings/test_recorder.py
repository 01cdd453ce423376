"""The recorder: reads sorted by reader, within bounds."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead, ReaderKey, RecordedRead
from forebay.core.names import ObjectName
from forebay.core.read_log import ReadGroup
from forebay.core.read_stream import ReadBatch
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.plan_window import PlanStart
from forebay.jobs.recordings import recorder as module
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recorder import IDLE_AFTER, MAX_TRACKS, Recorder
from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_access import LocalRecordings
from forebay.jobs.recordings.worker_order import SMALL
from forebay.policy.rules import Rules
from forebay.protocol.recordings.recording_file import RecordingDecoder
from forebay.settings.rule_settings import Rule
from harness.inspection import run_loop_until
from harness.loader_orders import sample_keys, shuffled
from harness.numbered_reads import NumberedReader
from harness.recording_content import reads_of

KEYS = sample_keys(60)


def read_of(name: ObjectName, span: Span, principal: str = "user", track: str = "all") -> ObjectRead:
    return ObjectRead(name, span, 10, principal, "all", "hit-memory", 1.0, track)


class SilentListener:
    """Follows nothing."""

    recognises = False

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        return self.recognises

    def followed(
        self, reader: ReaderKey, recording: Recording, start: Callable[[], PlanStart], *, missed: bool
    ) -> None:
        raise AssertionError

    def position_advanced(self, reader: ReaderKey, *, missed: bool) -> None:
        raise AssertionError

    def ended(self, reader: ReaderKey, *, parted: bool) -> None:
        raise AssertionError


class RecorderRig:
    def __init__(self, directory: Path) -> None:
        self.now = 1_000_000.0
        self.counts = Counter[str]()
        self.catalogue = RecordingCatalogue(directory, 1 << 24, TaskRegistry(), lambda: self.now)
        rules = Rules([Rule("*/off/**", record=False), Rule("**", name="all", record=True)])
        self.listener = SilentListener()
        self.recorder = Recorder(self.catalogue, self.listener, lambda: rules, lambda: self.now, self._count)

    def _count(self, event: str, by: int) -> None:
        self.counts[event] += by

    def read(self, keys: list[str], bucket: str = "b", principal: str = "user", track: str = "all") -> None:
        reads = [read_of(ObjectName(bucket, key), Span(0, 10), principal, track) for key in keys]
        self.recorder.observe(ReadBatch.of(reads))


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[RecorderRig]:
    made = RecorderRig(tmp_path)
    yield made
    made.recorder.close()
    await made.catalogue.close()


async def test_reads_wait_until_the_recordings_are_loaded(rig: RecorderRig) -> None:
    rig.read(KEYS)
    assert rig.counts["recorded"] == 0
    await rig.catalogue.open()
    rig.recorder.observe_pending()
    assert rig.counts["recorded"] == 60


async def test_readers_are_recorded_apart(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    for start in range(0, 60, 20):
        rig.read(KEYS[start : start + 20])
        rig.read(KEYS[start : start + 20], principal="other")
        rig.read(KEYS[start : start + 20], bucket="c")
        rig.read(KEYS[start : start + 20], track="")
    rig.recorder.close()
    found = [(each.bucket, each.principal, each.reads) for each in rig.catalogue.recordings]
    assert sorted(found) == [("b", "other", 60), ("b", "user", 60), ("c", "user", 60)]
    assert rig.counts == {"recorded": 180}


async def test_reads_before_the_files_are_open_are_not_lost(rig: RecorderRig) -> None:
    rig.read(KEYS[:30])
    await rig.catalogue.open()
    rig.read(KEYS[30:])
    rig.recorder.close()
    assert [each.reads for each in rig.catalogue.recordings] == [60]


async def test_reads_that_nobody_opens_files_for_are_bounded(rig: RecorderRig) -> None:
    for _ in range(module.MAX_PENDING + 3):
        rig.read(KEYS[:2])
    assert rig.counts == {"dropped": 6}
    await rig.catalogue.open()


async def test_ranges_and_whole_objects_are_told_apart(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    reads = [read_of(ObjectName("b", key), span) for key in KEYS[:10] for span in (Span(0, 10), Span(3, 10))]
    rig.recorder.observe(ReadBatch.of(reads, dropped=5))
    rig.recorder.close()
    [recording] = rig.catalogue.recordings
    found = list(reads_of(RecordingDecoder(await rig.catalogue.read(recording)).pages()))
    assert found[:2] == [RecordedRead(KEYS[0], 0, 10, True), RecordedRead(KEYS[0], 3, 7, False)]
    assert rig.counts == {"recorded": 20, "dropped": 5}


async def test_idle_readers_end_and_busy_ones_stay(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    rig.read(KEYS)
    rig.now += IDLE_AFTER + 1
    rig.read(KEYS, principal="busy")
    rig.recorder.end_idle()
    assert [(each.principal, each.state) for each in rig.catalogue.recordings] == [("user", "automatic")]
    rig.recorder.close()
    assert sorted(each.principal for each in rig.catalogue.recordings) == ["busy", "user"]


async def test_the_reader_that_is_idle_longest_makes_room(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    for number in range(MAX_TRACKS + 1):
        rig.now += 1
        rig.read(KEYS, principal=f"user-{number}")
    assert [each.principal for each in rig.catalogue.recordings] == ["user-0"]


async def test_a_cut_makes_a_recording_of_what_was_read(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    rig.read(KEYS)
    rig.recorder.cut("other")
    assert rig.catalogue.recordings == []
    rig.recorder.cut("b")
    assert [(each.state, each.reads) for each in rig.catalogue.recordings] == [("automatic", 60)]


async def test_epochs_that_ended_are_in_files_once_tended(rig: RecorderRig, tmp_path: Path) -> None:
    await rig.catalogue.open()
    reader = NumberedReader()
    for _ in range(2):
        rig.recorder.observe(ReadBatch([reader.group(KEYS)]))
    rig.recorder.save_tracks()
    [ended] = [each for each in rig.catalogue.recordings if each.state == "automatic"]
    await run_loop_until(lambda: ended.file_size > 0)
    assert (tmp_path / f"{ended.id}.anchors").exists()


@pytest.mark.parametrize(("worker_count", "count", "drained"), [(2, 3000, 300), (2, 5000, 500), (4, 5000, 1000)])
async def test_an_order_that_several_workers_answer_is_recorded_once(
    rig: RecorderRig, worker_count: int, count: int, drained: int
) -> None:
    """However many reads come in a batch: it is `worker_count` + 1 groups of each worker, of `drained` reads of all."""
    await rig.catalogue.open()
    rig.listener.recognises = True
    order, chance = shuffled(sample_keys(count), 1), Random(1)
    workers = [NumberedReader() for _ in range(worker_count)]
    batches: list[list[ReadGroup]] = [[] for _ in workers]
    for number, start in enumerate(range(0, 6 * count, drained)):
        keys = [order[each % count] for each in range(start, start + drained)]
        answered_by = [chance.randrange(worker_count) for _ in keys]
        for worker, reader in enumerate(workers):
            group = reader.group([key for key, each in zip(keys, answered_by, strict=True) if each == worker])
            group.drained_at = float(number) / 100
            batches[worker].append(group)
        ends = number % (worker_count + 1)
        if ends < worker_count:  # one after the other
            rig.recorder.observe(ReadBatch(batches[ends].copy(), ends))
            batches[ends].clear()
    rig.recorder.close()
    recorded = sum(each.reads for each in rig.catalogue.recordings)
    assert 0.95 * count <= recorded <= 1.2 * count


async def test_reads_do_not_wait_for_a_worker_that_stays_away(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    reader, other, keys = NumberedReader(), NumberedReader(), sample_keys(SMALL)

    def answer_some() -> None:
        group = reader.group(keys)
        group.drained_at = 0.1
        rig.recorder.observe(ReadBatch([group]))

    rig.recorder.observe(ReadBatch([other.group(KEYS[:1])], 1))
    answer_some()
    assert rig.counts["recorded"] == 1
    rig.recorder.save_tracks()
    assert rig.counts["recorded"] == 1
    rig.recorder.save_tracks()
    assert rig.counts["recorded"] == 1 + SMALL
    answer_some()
    rig.recorder.cut("bucket")
    assert rig.counts["recorded"] == 1 + 2 * SMALL
    answer_some()
    rig.recorder.close()
    assert rig.counts["recorded"] == 1 + 3 * SMALL


async def test_a_listing_counts_what_is_in_memory(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    local = LocalRecordings(rig.catalogue, rig.recorder.save, rig.recorder.cut, rig.recorder.leave)
    rig.read(KEYS[:40])
    assert [(each.reads, each.size) for each in await local.infos()] == [(40, 400)]
    rig.read(KEYS[40:])
    assert [(each.reads, each.size) for each in await local.infos()] == [(60, 600)]
    for start in range(0, 60, 20):
        rig.read(KEYS[start : start + 20])
    assert {(each.state, each.reads, each.size) for each in await local.infos()} == {
        ("automatic", 60, 600),
        ("recording", 60, 600),
    }
    rig.recorder.close()
    assert [(each.reads, each.size) for each in await local.infos()] == [(60, 600)] * 2
