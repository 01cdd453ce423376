"""The read stream: batches by number and by time, nothing without a subscriber, a bound on what is undelivered."""

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_log import NO_LOG, LogContext
from forebay.core.read_stream import (
    BATCH_READS,
    BATCH_SECONDS,
    DRAIN_READS,
    DRAIN_SECONDS,
    MAX_BATCH_SECONDS,
    MAX_KNOWN,
    MAX_LOGS,
    MAX_UNDELIVERED,
    MISS_SECONDS,
    ReadBatch,
    ReadStream,
)
from harness.manual_timers import ManualTimers

CONTEXT = LogContext("bucket", "trainer", "default", "")


def read(key: str = "key") -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), Span(0, 5), 5, "trainer", "default", "hit-memory", 1.0)


def miss(key: str = "key") -> ObjectRead:
    return read(key)._replace(cache="miss", cached=0.0)


def test_a_batch_is_delivered_after_its_time() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers, 3)
    stream.subscribe(batches.append)
    stream.add(read("a"))
    stream.add(read("b"))
    timers.advance(BATCH_SECONDS / 2)
    assert batches == []
    timers.advance(BATCH_SECONDS / 2)
    assert [(each.reads, each.worker) for each in batches] == [([read("a"), read("b")], 3)]
    timers.advance(BATCH_SECONDS)
    assert (len(batches), timers.pending) == (1, 0), "nothing is waited for while nothing is read"


def test_undelivered_reads_are_bounded_and_counted() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(batches.append)
    for _ in range(MAX_UNDELIVERED + 7):
        stream.add(read())
    stream.add(read("last"))
    timers.advance(BATCH_SECONDS)
    assert [(len(batch.reads), batch.dropped) for batch in batches] == [(MAX_UNDELIVERED, 8)]
    stream.add(read("last"))
    timers.advance(BATCH_SECONDS)
    assert batches[-1].reads == [read("last")]


def test_hits_are_appended_to_an_active_log() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    end = stream.subscribe(batches.append)
    log, code = stream.add_whole(CONTEXT, "key", 5, NO_LOG, 0)
    active = [log.is_active]
    log.append(code)
    timers.advance(BATCH_SECONDS)
    assert [batch.reads for batch in batches] == [[read(), read()]]
    timers.advance(BATCH_SECONDS)
    active.append(log.is_active)  # nothing was read for a while
    assert stream.add_whole(CONTEXT, "key", 5, log, code) == (log, code)
    active.append(log.is_active)
    end()
    assert [*active, log.is_active] == [True, False, True, False]
    assert not log.codes


def test_known_objects_are_bounded() -> None:
    stream = ReadStream(ManualTimers())
    stream.subscribe(lambda _: None)
    first, code = stream.add_whole(CONTEXT, "key", 5, NO_LOG, 0)
    for number in range(MAX_KNOWN):
        stream.add_whole(CONTEXT, f"{number}", 5, NO_LOG, 0)
    assert (first.is_closed, first.is_active) == (True, False)
    log, again = stream.add_whole(CONTEXT, "key", 5, first, code)
    assert (log.is_closed, log is not first, again & 0xFFFFFFFF) == (False, True, code & 0xFFFFFFFF)
    assert len(log.known.keys) == 2


def test_logs_are_bounded() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(batches.append)
    for number in range(MAX_LOGS + 1):
        stream.add_whole(CONTEXT._replace(principal=f"{number}"), "key", 5, NO_LOG, 0)
    timers.advance(BATCH_SECONDS)
    assert batches[0].read_count == MAX_LOGS + 1, "what a closed log has is delivered"
    timers.advance(BATCH_SECONDS)
    assert timers.pending == 0


def test_the_stream_is_open_while_somebody_subscribes() -> None:
    timers, first, second = ManualTimers(), list[ReadBatch](), list[ReadBatch]()
    stream = ReadStream(timers)
    seen = [stream.is_open]
    ends = [stream.subscribe(first.append), stream.subscribe(second.append)]
    ends[0]()
    ends[0]()
    seen.append(stream.is_open)
    stream.add(read())
    timers.advance(BATCH_SECONDS)
    ends[1]()
    assert (first, len(second), [*seen, stream.is_open]) == ([], 1, [False, True, False])


def batch_sizes(reads_a_second: float, seconds: float, *, is_urgent: bool) -> list[int]:
    """The reads of each batch, while they are made one by one."""
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(batches.append, is_urgent=is_urgent)
    for _ in range(round(reads_a_second * seconds)):
        stream.add(read())
        timers.advance(1 / reads_a_second)
    return [batch.read_count for batch in batches]


def test_slow_reads_are_delivered_in_few_batches() -> None:
    urgent, others = batch_sizes(100, 5, is_urgent=True), batch_sizes(100, 5, is_urgent=False)
    assert len(urgent) == 5 / BATCH_SECONDS
    assert others[0] == 100 * BATCH_SECONDS, "behind a pause"
    assert 5 / MAX_BATCH_SECONDS <= len(others) <= 5 / MAX_BATCH_SECONDS + 2


def test_an_interval_has_about_as_many_reads_as_are_a_batch() -> None:
    sizes = batch_sizes(2000, 2, is_urgent=False)
    assert all(0.9 * BATCH_READS < size < 1.1 * BATCH_READS for size in sizes[2:]), sizes


def test_fast_reads_are_delivered_at_once_by_any_stream() -> None:
    assert batch_sizes(10_000, 1, is_urgent=False) == batch_sizes(10_000, 1, is_urgent=True)


def test_a_miss_is_delivered_soon() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(batches.append, is_urgent=False)
    for _ in range(3):  # few reads: by themselves they would wait longer each time
        stream.add(miss())
        timers.advance(MISS_SECONDS)
    assert [batch.read_count for batch in batches] == [1, 1, 1]


def test_misses_wait_no_longer_than_the_first_of_them() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(batches.append)
    for _ in range(8):
        stream.add(miss())
        timers.advance(MISS_SECONDS / 4)
    assert [batch.read_count for batch in batches] == [4, 4]


def test_a_miss_is_delivered_soon_by_one_of_several_workers() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.drains_early = True
    stream.subscribe(batches.append, is_urgent=False)
    stream.add(read())
    timers.advance(DRAIN_SECONDS)
    stream.add(miss())
    timers.advance(MISS_SECONDS)
    assert [batch.read_count for batch in batches] == [2]


def test_an_urgent_subscriber_waits_for_no_long_interval() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(lambda _: None, is_urgent=False)
    stream.add(read())
    timers.advance(BATCH_SECONDS)
    end = stream.subscribe(batches.append)
    stream.add(read())
    timers.advance(BATCH_SECONDS)
    assert (len(batches), timers.pending) == (1, 1)
    end()
    timers.advance(BATCH_SECONDS)  # set while it was there
    stream.add(read())
    timers.advance(BATCH_SECONDS)
    log, code = stream.add_whole(CONTEXT, "key", 5, NO_LOG, 0)
    log.append(code)
    timers.advance(BATCH_SECONDS)
    assert log.codes, "nobody is in a hurry any more"


def test_many_reads_of_one_of_several_workers_are_drained_early() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.drains_early = True
    end = stream.subscribe(batches.append)
    for _ in range(5):
        for _ in range(DRAIN_READS):
            stream.add(read())
        timers.advance(DRAIN_SECONDS)
    [batch] = batches
    assert [(len(each), round(each.drained_at, 3)) for each in batch.groups] == [
        (DRAIN_READS, round(number * DRAIN_SECONDS, 3)) for number in range(1, 6)
    ]
    stream.add(read("later"))
    timers.advance(BATCH_SECONDS)
    assert [len(each) for each in batches[-1].groups] == [1]
    timers.advance(MAX_BATCH_SECONDS)
    assert (len(batches), timers.pending) == (2, 0)
    end()


def test_drained_reads_without_a_subscriber_are_forgotten() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.drains_early = True
    end = stream.subscribe(batches.append)
    for _ in range(DRAIN_READS):
        stream.add(read())
    timers.advance(DRAIN_SECONDS)
    end()
    stream.subscribe(batches.append)
    timers.advance(BATCH_SECONDS)
    assert batches == []


def test_a_few_reads_are_left_to_their_batch() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.drains_early = True
    stream.subscribe(batches.append)
    for _ in range(3):
        stream.add(read())
        timers.advance(DRAIN_SECONDS)
    timers.advance(BATCH_SECONDS - 3 * DRAIN_SECONDS)
    assert [[len(each) for each in batch.groups] for batch in batches] == [[3]]
