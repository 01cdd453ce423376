"""Reads in columns: the same reads, however they are cut and joined."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.events import RecordedRead
from forebay.protocol.recordings.read_columns import ReadColumns, no_reads

READS = st.lists(
    st.builds(RecordedRead, st.text(max_size=5), st.integers(0, 9), st.integers(0, 1 << 40), st.booleans()), max_size=9
)


@given(READS, st.integers(0, 9))
def test_cutting_and_joining_gives_the_same(reads: list[RecordedRead], count: int) -> None:
    columns = ReadColumns.of(reads)
    assert (columns.reads, len(columns)) == (tuple(reads), len(reads))
    assert columns.size == sum(read.length for read in reads)
    joined = no_reads()
    joined.extend(columns.part(0, count))
    joined.extend(columns.part(count, len(reads)))
    assert joined == ReadColumns.of(reads)
    assert joined.part(count, count + 2).columns.reads == tuple(reads[count : count + 2])


def test_some_reads_are_chosen_by_their_positions() -> None:
    reads = [RecordedRead(key, 3, 5, False) for key in "abc"]
    assert ReadColumns.of(reads).chosen([2, 0]).reads == (reads[2], reads[0])
