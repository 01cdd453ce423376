"""The epoch recorder: all reads in order, once, in pages; and epochs apart."""

from array import array

import pytest

from forebay.core.events import RecordedRead
from forebay.jobs.recordings import epoch_recorder
from forebay.jobs.recordings.epoch_recorder import EpochEnded, EpochRecorder
from forebay.protocol.recordings.read_columns import ReadColumns
from forebay.protocol.recordings.recording_page import PAGE_READS, RecordingPage
from harness.loader_orders import arrivals, hashes_of, index_of, sample_keys, shuffled, whole_reads
from harness.recording_content import reads_of


def record(keys: list[str], step: int = 100, recorder: EpochRecorder | None = None) -> list[RecordingPage | EpochEnded]:
    recorder = recorder or EpochRecorder(0.0)
    made: list[RecordingPage | EpochEnded] = []
    for start in range(0, len(keys), step):
        part = keys[start : start + step]
        made += recorder.add(ReadColumns.of(whole_reads(part)), hashes_of(part), start / 10)
    return made + recorder.end()


def epochs(made: list[RecordingPage | EpochEnded]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for each in made:
        match each:
            case RecordingPage():
                found[-1] += [read.key for read in each.reads]
            case EpochEnded(index, _):
                assert index.count == len(found[-1])
                found.append([])
    assert found.pop() == []
    return found


@pytest.mark.parametrize("count", [40, 100, 700, 5000])
@pytest.mark.parametrize("step", [7, 256])
def test_three_epochs_are_three_recordings(count: int, step: int) -> None:
    orders = [shuffled(sample_keys(count), seed) for seed in range(3)]
    found = epochs(record([key for order in orders for key in order], step))
    assert len(found) == 3
    for order, recorded in zip(orders, found, strict=True):
        assert len(set(recorded) & set(order)) >= count * 0.95
        assert abs(len(recorded) - count) <= max(3, count // 20)
    assert found[0][: count // 2] == orders[0][: count // 2]


def test_an_epoch_is_whole_when_its_objects_are_read_again() -> None:
    orders = [shuffled(sample_keys(700), seed) for seed in range(3)]
    made = record([key for order in orders for key in order][:1800])
    assert [each.is_whole for each in made if isinstance(each, EpochEnded)] == [True, True, False]


def test_pages_are_full_and_say_when_they_began() -> None:
    made = record(sample_keys(3 * PAGE_READS + 5))
    pages = [each for each in made if isinstance(each, RecordingPage)]
    assert [len(page.reads) for page in pages] == [PAGE_READS] * 3 + [5]
    assert [page.seconds for page in pages] == sorted(page.seconds for page in pages)
    assert pages[-1].seconds > pages[0].seconds == 0
    assert [read.key for read in reads_of(pages)] == sample_keys(3 * PAGE_READS + 5)


@pytest.mark.parametrize("count", [900, 20_000])
def test_reads_of_several_ranks_are_recorded_once(count: int) -> None:
    order = shuffled(sample_keys(count), 1)
    assert epochs(record([key for key in order for _ in range(4)])) == [order]


def test_a_large_epoch_is_recorded_whole_whatever_the_batches() -> None:
    order = shuffled(sample_keys(20_000), 1)
    for step in (100, 900):
        assert epochs(record(order, step)) == [order]


@pytest.mark.parametrize("joined", [300, 5000, 15_000])
def test_reads_of_a_rank_that_joins_late_are_recorded_once(joined: int) -> None:
    order = shuffled(sample_keys(20_000), 1)
    both = [key for key in order[joined:] for _ in range(2)]
    assert epochs(record(order[:joined] + both)) == [order]


@pytest.mark.parametrize("count", [900, 5000])
def test_single_repeated_reads_end_no_epoch(count: int) -> None:
    keys = shuffled(sample_keys(count), 1)
    read = [*keys]
    for start in range(400, count, 100):
        read[start:start] = keys[start - 390 : start - 388]
    [recorded] = epochs(record(read, step=512))
    assert list(dict.fromkeys(recorded)) == keys


def test_an_epoch_goes_on_behind_what_is_known_of_it() -> None:
    order = shuffled(sample_keys(900), 1)
    known = EpochRecorder(0.0, index_of(order[:500]))
    made = record(order[480:] + order[:100], recorder=known)
    pages = [each for each in made if isinstance(each, RecordingPage)]
    assert [read.key for read in reads_of(pages)][:400] == order[500:]
    assert [each.index.count for each in made if isinstance(each, EpochEnded)] == [900, 100]


def test_ranges_of_an_object_are_recorded_each() -> None:
    recorder = EpochRecorder(0.0)
    reads = [RecordedRead("table", start << 20, 1 << 20, False) for start in range(30)]
    recorder.add(ReadColumns.of(reads), array("I", range(1, 31)), 0.0)
    [page, end] = recorder.end()
    assert isinstance(page, RecordingPage)
    assert list(page.reads) == reads
    assert isinstance(end, EpochEnded)


def test_nothing_read_is_no_recording() -> None:
    assert EpochRecorder(0.0).end() == []


def test_a_recorder_goes_on_behind_an_end() -> None:
    recorder = EpochRecorder(0.0)
    assert epochs(record(sample_keys(50), recorder=recorder)) == [sample_keys(50)]
    assert epochs(record(sample_keys(60), recorder=recorder)) == [sample_keys(60)]


def test_loaders_with_workers_are_recorded_as_they_arrive() -> None:
    reads = arrivals(shuffled(sample_keys(2000), 1), 4, 32)
    assert epochs(record(reads)) == [reads]


@pytest.mark.parametrize("step", [7, 100, 999, 1000, 1001, 5000])
@pytest.mark.parametrize("known", [0, 400])
def test_an_endless_epoch_is_cut(step: int, known: int) -> None:
    """Also one of which no read is repeated."""
    keys = sample_keys(3500)
    recorder = EpochRecorder(0.0, index_of(keys[:known]) if known else None, most_reads=1000)
    made = record(keys[known:], step, recorder)
    pages = [each for each in made if isinstance(each, RecordingPage)]
    assert [read.key for read in reads_of(pages)] == keys[known:]
    ends = [each for each in made if isinstance(each, EpochEnded)]
    assert [(end.index.count, end.is_whole) for end in ends] == [(1000, False)] * 3 + [(500, False)]
    assert {page.seconds for page in pages[1:]} == {0}, "each begins with its first read"


def test_a_cut_epoch_is_ended_by_its_repeated_reads() -> None:
    order = shuffled(sample_keys(1500), 1)
    made = record(order * 2, recorder=EpochRecorder(0.0, most_reads=1000))
    ends = [each.index.count for each in made if isinstance(each, EpochEnded)]
    assert (sum(ends), max(ends)) == (3000, 1000)


def test_a_recording_has_no_more_reads_than_a_file_may_have() -> None:
    assert epoch_recorder.MAX_READS * 30 > 128 << 20  # so its file is about as large as one may be
