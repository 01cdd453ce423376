"""The tail of what was read: batches, however they are cut, are the same reads."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.events import RecordedRead
from forebay.protocol.recordings.read_columns import ReadColumns
from forebay.protocol.recordings.read_tail import ReadTail
from harness.numbered_reads import NumberedReader

READS = st.builds(RecordedRead, st.text(max_size=5), st.integers(0, 9), st.integers(0, 1 << 40), st.booleans())


@given(st.lists(st.lists(READS, max_size=5), max_size=5), st.integers(0, 26), st.integers(0, 26))
def test_cut_batches_are_the_same_reads(batches: list[list[RecordedRead]], count: int, more: int) -> None:
    reads = [read for batch in batches for read in batch]
    tail = ReadTail()
    for batch in batches:
        tail.append(ReadColumns.of(batch))
    assert (tail.columns.reads, len(tail)) == (tuple(reads), len(reads))
    assert tail.part(count, more).columns.reads == tuple(reads[count:more])
    assert tail.chosen(range(count, len(reads), 3)).columns.reads == tuple(reads[count::3])
    first = tail.cut(count)
    tail.append(ReadColumns.of(reads[:1]))
    assert first.columns.reads == tuple(reads[:count])
    assert tail.columns.reads == (*reads[count:], *reads[:1])
    assert (len(first), len(tail)) == (len(reads[:count]), len(reads[count:]) + len(reads[:1]))


def test_numbers_of_one_log_are_together() -> None:
    first, second = NumberedReader(), NumberedReader()
    tail = ReadTail([first.reads(["a", "b"]), first.reads(["a"]), second.reads(["c"])])
    found = tail.numbered
    assert found is not None
    assert [(known.keys, list(numbers)) for known, numbers in found] == [(["a", "b"], [0, 1, 0]), (["c"], [0])]
    assert tail.numbered == found
    mixed = ReadTail([tail, ReadColumns.of([RecordedRead("d", 0, 5, True)])])
    assert mixed.numbered is None
    assert (tail.is_numbered, mixed.is_numbered) == (True, False)
    assert [read.key for read in mixed.columns.reads] == ["a", "b", "a", "c", "d"]
