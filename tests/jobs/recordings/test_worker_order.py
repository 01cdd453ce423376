"""The order of several workers' reads: by the time of each group, once every worker has delivered."""

from array import array

from forebay.core.read_log import CODE, KnownReads, LogContext, ReadGroup
from forebay.core.read_stream import BATCH_SECONDS
from forebay.jobs.recordings.worker_order import PATIENCE, SMALL, WorkerOrder

CONTEXT = LogContext("bucket", "user", "rule", "track")


def group(drained_at: float, reads: int = SMALL) -> ReadGroup:
    return ReadGroup(CONTEXT, array(CODE, range(reads)), KnownReads(), (), drained_at)


def times(groups: list[ReadGroup]) -> list[float]:
    return [each.drained_at for each in groups]


def test_reads_of_one_worker_pass_at_once() -> None:
    order = WorkerOrder()
    assert times(order.add(1, group(5.0))) == [5.0]
    assert times(order.add(1, group(5.1))) == [5.1]


def test_groups_of_two_workers_come_in_turns() -> None:
    order = WorkerOrder()
    order.add(1, group(0.0))
    assert times(order.add(0, group(0.01))) == [], "the other may have answered some before"
    assert times(order.add(0, group(0.03))) == []
    assert times(order.add(1, group(0.02))) == [0.01, 0.02]
    assert times(order.add(1, group(0.04))) == [0.03]
    assert times(order.release_all()) == [0.04]
    assert order.release_all() == []


def test_reads_of_one_time_are_mixed_as_if_answered_evenly() -> None:
    order = WorkerOrder()
    for worker in range(2):
        order.add(worker, group(1.0))
    order.release_all()
    order.add(0, group(1.01, 4 * SMALL))
    passed = order.add(1, group(1.02, 2 * SMALL))
    assert [len(each) for each in passed] == [SMALL] * 5
    assert [round(each, 4) for each in times(passed)] == [1.0025, 1.005, 1.0075, 1.01, 1.01]
    assert [each.codes[0] for each in passed[:4]] == [0, SMALL, 2 * SMALL, 3 * SMALL], "each worker's in order"
    assert times(order.release_all()) == [1.02]


def test_what_was_read_before_a_pause_is_no_part_of_it() -> None:
    order = WorkerOrder()
    order.add(0, group(1.0))
    order.add(1, group(1.0))
    assert [round(100 - each, 4) for each in times(order.add(0, group(100.0, 2 * SMALL)))] == [BATCH_SECONDS / 2, 0]


def test_a_worker_without_reads_is_not_waited_for() -> None:
    order = WorkerOrder()
    order.add(1, group(0.0))
    assert times(order.add(0, group(PATIENCE))) == []
    passed = order.add(0, group(PATIENCE + 0.01))
    assert times(passed)[-1] == PATIENCE + 0.01
    assert sum(map(len, passed)) == 2 * SMALL


def test_a_few_reads_wait_for_nothing_but_those_before() -> None:
    order = WorkerOrder()
    order.add(1, group(0.0))
    assert times(order.add(0, group(0.01, SMALL - 1))) == [0.01]
    order.add(0, group(0.02))
    assert order.add(0, group(0.03, 1)) == []
    passed = order.add(1, group(0.03))
    assert sum(map(len, passed)) == 2 * SMALL + 1
    assert times(passed) == sorted(times(passed))


def test_what_nobody_adds_to_is_stale() -> None:
    order = WorkerOrder()
    order.add(1, group(0.0))
    order.add(0, group(0.01))
    assert order.release_stale() == []
    assert times(order.release_stale()) == [0.01]
