"""The recorder: reads sorted by reader, within bounds."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead, ReaderKey, RecordedRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import ReadBatch
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.plans.plan_window import PlanStart
from forebay.jobs.recordings import recorder as module
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recorder import IDLE_AFTER, MAX_TRACKS, Recorder
from forebay.jobs.recordings.recording import Recording
from forebay.policy.rules import Rules
from forebay.protocol.recordings.recording_file import RecordingDecoder
from forebay.settings.rule_settings import Rule
from harness.inspection import run_loop_until
from harness.loader_orders import sample_keys
from harness.numbered_reads import NumberedReader
from harness.recording_content import reads_of

KEYS = sample_keys(60)


def read_of(name: ObjectName, span: Span, principal: str = "user", track: str = "all") -> ObjectRead:
    return ObjectRead(name, span, 10, principal, "all", "hit-memory", 1.0, track)


class SilentListener:
    """Follows nothing."""

    def may_follow(self, reader: ReaderKey, recording: Recording) -> bool:
        return False

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
        self.recorder = Recorder(self.catalogue, SilentListener(), lambda: rules, lambda: self.now, self._count)

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
    assert [track.key.principal for track in rig.recorder.tracks] == ["busy"]
    assert [each.state for each in rig.catalogue.recordings] == ["automatic"]


async def test_the_reader_that_is_idle_longest_makes_room(rig: RecorderRig) -> None:
    await rig.catalogue.open()
    for number in range(MAX_TRACKS + 1):
        rig.now += 1
        rig.read(KEYS, principal=f"user-{number}")
    names = [track.key.principal for track in rig.recorder.tracks]
    assert len(names) == MAX_TRACKS
    assert "user-0" not in names


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
    rig.recorder.tend()
    [ended] = [each for each in rig.catalogue.recordings if each.state == "automatic"]
    await run_loop_until(lambda: ended.file_size > 0)
    assert (tmp_path / f"{ended.id}.anchors").exists()
