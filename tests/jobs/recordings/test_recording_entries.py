"""Recording entries: any window of a recording, forwards and backwards, and what is damaged."""

import pytest

from forebay.core.events import RecordedRead
from forebay.jobs.plans.plan_entries import PlanEntry
from forebay.jobs.recordings.recording_entries import RecordingEntries
from harness.loader_orders import sample_keys
from harness.recording_content import recording_of

KEYS = sample_keys(250)


@pytest.mark.parametrize("step", [1, 40, 100, 256])
def test_all_reads_are_entries_in_order(step: int) -> None:
    entries = RecordingEntries(recording_of(KEYS), 250)
    found = [entry for start in range(0, 250, step) for entry in entries.read(start, start + step)]
    assert found == [PlanEntry(key) for key in KEYS]


def test_an_earlier_window_is_read_again() -> None:
    entries = RecordingEntries(recording_of(KEYS), 250)
    assert [entry.key for entry in entries.read(220, 400)] == KEYS[220:]
    assert [entry.key for entry in entries.read(5, 105)] == KEYS[5:105]
    assert entries.read(250, 300) == []


def test_ranges_are_entries_with_bounds() -> None:
    reads = [RecordedRead("table", 5, 7, False), RecordedRead("small", 0, 9, True)]
    entries = RecordingEntries(recording_of(reads), 2)
    assert entries.read(0, 2) == [PlanEntry("table", 5, 12), PlanEntry("small")]


def test_a_key_is_found_from_a_position_on() -> None:
    entries = RecordingEntries(recording_of(KEYS + KEYS[:3]), 253)
    assert (entries.find(KEYS[2]), entries.find(KEYS[2], 3), entries.find("other")) == (2, 252, None)


def test_what_is_damaged_is_no_entry() -> None:
    content = recording_of(KEYS)
    with pytest.raises(ValueError, match="truncated"):
        RecordingEntries(content[:-400], 250).read(0, 250)
    with pytest.raises(ValueError, match="fewer reads"):
        RecordingEntries(content, 300).read(0, 300)
    closed = RecordingEntries(content, 250)
    closed.close()
    with pytest.raises(ValueError, match="fewer reads"):
        closed.read(0, 1)
    assert closed.find(KEYS[0]) is None
