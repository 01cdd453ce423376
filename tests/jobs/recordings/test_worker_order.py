"""The order of several workers' reads: by the time of each group, once every worker has delivered."""

from array import array

from forebay.core.read_log import CODE, KnownReads, LogContext, ReadGroup
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


def test_a_worker_without_reads_is_not_waited_for() -> None:
    order = WorkerOrder()
    order.add(1, group(0.0))
    assert times(order.add(0, group(PATIENCE))) == []
    assert times(order.add(0, group(PATIENCE + 0.01))) == [PATIENCE, PATIENCE + 0.01]


def test_a_few_reads_wait_for_nothing_but_those_before() -> None:
    order = WorkerOrder()
    order.add(1, group(0.0))
    assert times(order.add(0, group(0.01, SMALL - 1))) == [0.01]
    order.add(0, group(0.02))
    assert order.add(0, group(0.03, 1)) == []
    assert times(order.add(1, group(0.03))) == [0.02, 0.03, 0.03]


def test_what_nobody_adds_to_is_stale() -> None:
    order = WorkerOrder()
    order.add(1, group(0.0))
    order.add(0, group(0.01))
    assert order.release_stale() == []
    assert times(order.release_stale()) == [0.01]
