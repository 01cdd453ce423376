"""The reads of one context as recordings have them."""

from array import array

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead, RecordedRead
from forebay.core.names import ObjectName
from forebay.core.read_log import LogContext, ReadLog
from forebay.jobs.recordings.group_reads import GroupReads
from forebay.protocol.recordings.read_columns import NumberedReads


def test_reads_of_each_kind_are_columns_in_their_order() -> None:
    log = ReadLog(LogContext("bucket", "user", "rule", "track"))
    log.append(log.known.add("a", 5))
    whole = (RecordedRead("a", 0, 5, True),)
    assert GroupReads(log.drain(9)[0]).columns.reads == whole
    for span in (Span(0, 5), Span(2, 5)):
        log.add(ObjectRead(ObjectName("bucket", "b"), span, 5, "user", "rule", "miss", 0.0, "track"))
    log.append(0)
    reads = GroupReads(log.drain(9)[0])
    assert reads.columns.reads == (RecordedRead("b", 0, 5, True), RecordedRead("b", 2, 3, False), *whole)
    assert (len(reads), reads.part(2, 3).columns.reads) == (3, whole)
    assert reads.chosen([0, 2]).columns.reads == (RecordedRead("b", 0, 5, True), *whole)
    assert (reads.numbered, reads.part(0, 1).numbered) == (None, None)
    assert not reads.is_numbered
    log.append(0)
    assert GroupReads(log.drain(9)[0]).is_numbered
    assert reads.part(2, 3).numbered == [NumberedReads(log.known, array("I", [0]))]
