"""The read stream: batches by number and by time, nothing without a subscriber, a bound on what is undelivered."""

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import BATCH_READS, BATCH_SECONDS, MAX_UNDELIVERED, ReadBatch, ReadStream
from harness.manual_timers import ManualTimers


def read(key: str = "key") -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), Span(0, 5), 5, "trainer", "default", "hit-memory", 1.0)


def test_a_batch_is_delivered_after_its_time() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers, 3)
    stream.subscribe(batches.append)
    stream.add(read("a"))
    stream.add(read("b"))
    timers.advance(BATCH_SECONDS / 2)
    assert batches == []
    timers.advance(BATCH_SECONDS / 2)
    assert batches == [ReadBatch([read("a"), read("b")], 3)]
    assert timers.pending == 0


def test_a_full_batch_is_delivered_at_once_but_not_within_a_hit() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(batches.append)
    for _ in range(BATCH_READS):
        stream.add(read())
    assert batches == []
    timers.advance(0.0)
    assert [len(batch.reads) for batch in batches] == [BATCH_READS]


def test_undelivered_reads_are_bounded_and_counted() -> None:
    timers, batches = ManualTimers(), list[ReadBatch]()
    stream = ReadStream(timers)
    stream.subscribe(batches.append)
    for _ in range(MAX_UNDELIVERED + 7):
        stream.add(read())
    stream.add(read("last"))
    timers.advance(0.0)
    assert [(len(batch.reads), batch.dropped) for batch in batches] == [(MAX_UNDELIVERED, 8)]
    stream.add(read("last"))
    timers.advance(BATCH_SECONDS)
    assert batches[-1] == ReadBatch([read("last")])


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
