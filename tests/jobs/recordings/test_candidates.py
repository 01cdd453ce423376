"""The candidates of a reader: which recordings its reads are compared with, and how often."""

from itertools import count
from pathlib import Path

from forebay.core.task_registry import TaskRegistry
from forebay.jobs.recordings.candidates import MAX_TIMES_LEFT, PERIOD_READS, SELDOM, RecordingCandidates
from forebay.jobs.recordings.catalogue import RecordingCatalogue
from forebay.jobs.recordings.recording import Recording
from forebay.protocol.recordings.recording_page import RecordingPage
from harness.loader_orders import hashes_of, index_of, sample_keys, shuffled, whole_reads

ORDERS = [shuffled(sample_keys(600), seed) for seed in range(2)]
NEW = hashes_of([f"new/{number}" for number in range(PERIOD_READS)])


async def recorded(directory: Path) -> RecordingCatalogue:
    catalogue = RecordingCatalogue(directory, 1 << 24, TaskRegistry(), count(1_000_000.0).__next__)
    await catalogue.open()
    for order in ORDERS:
        recording = catalogue.begin("bucket", "user", "set", "run", 1)
        catalogue.append(recording, RecordingPage.of(whole_reads(order)))
        catalogue.end(recording, index_of(order))
    return catalogue


def best(candidates: RecordingCandidates, order: int) -> Recording | None:
    found = candidates.compare(hashes_of(ORDERS[order][100:140]))
    return found[0] if found is not None else None


async def test_the_recording_that_fits_best_is_found(tmp_path: Path) -> None:
    catalogue = await recorded(tmp_path)
    first, second = catalogue.recordings
    candidates = RecordingCandidates("bucket", catalogue, lambda _: True)
    assert best(candidates, 0) is first
    candidates.begin_epoch()
    assert best(candidates, 1) is second
    assert best(RecordingCandidates("other", catalogue, lambda _: True), 0) is None
    assert best(RecordingCandidates("bucket", catalogue, lambda each: each is not first), 0) is None
    await catalogue.close()


async def test_one_that_was_parted_from_is_tried_again_in_the_next_epoch(tmp_path: Path) -> None:
    catalogue = await recorded(tmp_path)
    first, _ = catalogue.recordings
    candidates = RecordingCandidates("bucket", catalogue, lambda _: True)
    for _ in range(MAX_TIMES_LEFT):
        assert best(candidates, 0) is first
        candidates.leave(first)
    assert best(candidates, 0) is None
    candidates.begin_epoch()
    assert best(candidates, 0) is first
    candidates.exclude(first)
    assert best(candidates, 0) is None
    await catalogue.close()


async def test_reads_are_compared_seldom_once_nothing_matched(tmp_path: Path) -> None:
    catalogue = await recorded(tmp_path)
    candidates = RecordingCandidates("bucket", catalogue, lambda _: True)
    assert candidates.compare(NEW) is None
    assert best(candidates, 0) is None, "not looked at"
    candidates.compare_next()
    assert best(candidates, 0) is not None
    candidates.begin_epoch()
    for _ in range(SELDOM):
        candidates.compare(NEW)
    assert best(candidates, 0) is not None, "it is the turn of the next ones"
    await catalogue.close()


async def test_a_batch_counts_to_the_period_that_has_most_of_it(tmp_path: Path) -> None:
    catalogue = await recorded(tmp_path)
    order = hashes_of(ORDERS[0])
    candidates = RecordingCandidates("bucket", catalogue, lambda _: True)
    assert candidates.compare(NEW[:10]) is None
    assert candidates.compare(order[: PERIOD_READS - 6]) is not None
    candidates.compare_next()
    assert candidates.compare(NEW[:-10]) is None
    assert candidates.compare(order[: PERIOD_READS - 6]) is None
    candidates.compare_next()
    assert candidates.compare(order) is not None, "a long one at first"
    await catalogue.close()
