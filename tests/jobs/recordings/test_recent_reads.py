"""The latest reads of a reader: as many as are kept, and none of an epoch before."""

from forebay.jobs.recordings.recent_reads import MAX_RECENT, RecentReads


def test_the_latest_reads_are_kept() -> None:
    recent = RecentReads()
    for start in range(0, 3 * MAX_RECENT, 128):
        recent.add(range(start, start + 128))
    assert recent.hashes == frozenset(range(2 * MAX_RECENT, 3 * MAX_RECENT))


def test_reads_of_another_epoch_are_forgotten() -> None:
    recent = RecentReads()
    for start in (0, 10, 20):
        recent.add(range(start, start + 10))
    recent.keep(30)
    assert len(recent) == 30
    recent.keep(13)
    assert (len(recent), recent.hashes) == (13, frozenset(range(17, 30)))
    recent.keep(0)
    assert (len(recent), recent.hashes) == (0, frozenset())
