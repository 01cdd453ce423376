"""The read log: codes that stand for reads, in order, whatever kind of read they are."""

from array import array
from itertools import pairwise

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_log import CODE, TRANSIENT, LogContext, ReadGroup, ReadLog, context_of, group_reads, read_hash

CONTEXT = LogContext("bucket", "user", "rule", "track")


WHOLE = Span(0, 7)


def read(key: str, span: Span = WHOLE, user: str = "user", cached: float = 1.0) -> ObjectRead:
    return ObjectRead(ObjectName("bucket", key), span, 7, user, "rule", "hit-memory", cached, "track")


def mixed_group() -> ReadGroup:
    log = ReadLog(CONTEXT)
    first, second = log.known.add("a", 7), log.known.add("b", 7)
    log.append(second)
    log.add(read("c", Span(2, 4)))
    log.append(first)
    log.append(second)
    group, dropped = log.drain(10)
    assert dropped == 0
    return group


def test_known_and_transient_reads_keep_their_order() -> None:
    group = mixed_group()
    assert group.reads() == [read("b"), read("c", Span(2, 4)), read("a"), read("b")]
    assert list(group.hashes) == [read_hash(key, start) for key, start in (("b", 0), ("c", 2), ("a", 0), ("b", 0))]
    assert group.numbers == [1, TRANSIENT, 0, 1]
    assert len(group) == 4


def test_a_drained_group_has_codes_of_64_bits_of_its_own() -> None:
    log, largest = ReadLog(CONTEXT), (1 << 64) - 1
    log.append(largest)
    group, _ = log.drain(10)
    log.append(0)
    assert (group.codes, group.codes.itemsize) == (array(CODE, [largest]), 8)
    assert log.drain(10)[0].codes == array(CODE, [0])


def test_runs_are_known_reads_together_and_others_alone() -> None:
    runs = [each if isinstance(each, ObjectRead) else each.reads() for each in mixed_group().runs()]
    assert runs == [[read("b")], read("c", Span(2, 4)), [read("a"), read("b")]]


def test_columns_are_of_each_read_however_few_there_are() -> None:
    log = ReadLog(CONTEXT)
    codes = [log.known.add("a", 7), log.known.add("b", 9)]
    for code in [*codes, codes[0]]:
        log.append(code)
    group, _ = log.drain(3)
    for stop in range(4):
        part = group.part(0, stop)
        assert (part.keys, part.extents) == (["a", "b", "a"][:stop], [15, 19, 15][:stop])


def test_a_part_is_the_reads_in_it() -> None:
    group = mixed_group()
    assert group.part(1, 3).reads() == group.reads()[1:3]
    assert list(group.part(2, 2).runs()) == []


def test_a_log_that_was_emptied_goes_on() -> None:
    log = ReadLog(CONTEXT)
    code = log.known.add("a", 7)
    append = log.append
    for _ in range(5):
        append(code)
    group, dropped = log.drain(3)
    assert (group.reads(), dropped) == ([read("a")] * 3, 2)
    append(code)
    assert log.drain(3)[0].reads() == [read("a")]


def test_misses_are_told_from_hits() -> None:
    assert not group_reads([read("a")])[0].has_misses
    assert group_reads([read("a"), read("a", cached=0.5)])[0].has_misses


def test_reads_are_grouped_by_their_context() -> None:
    reads = [read("a"), read("b", user="other"), read("c")]
    groups = group_reads(reads)
    assert [group.reads() for group in groups] == [[reads[0], reads[2]], [reads[1]]]
    assert [group.context.principal for group in groups] == ["user", "other"]
    assert context_of(reads[0]) == CONTEXT


def test_hashes_of_ranges_differ_and_spread() -> None:
    hashes = sorted(read_hash("table.parquet", start << 20) for start in range(1000))
    assert len(set(hashes)) == 1000
    assert max(later - earlier for earlier, later in pairwise(hashes)) < 1 << 26
