"""A recording passes only with the keys that may be seen."""

import pytest

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import MalformedRecording
from forebay.jobs.recordings.recording_filter import filter_recording
from harness.loader_orders import sample_keys
from harness.recording_content import filtered, keys_in, recording_of

KEYS = sample_keys(250)
FILE = recording_of(KEYS)


def test_a_file_without_a_filter_stays_as_it_is() -> None:
    found = filtered(FILE)
    assert found.content == FILE
    assert (found.began, found.reads, found.size, found.dropped) == (1_750_000_000, 250, 250_000, 0)
    assert found.index.count == 250


def test_keys_that_may_not_be_seen_are_nowhere_in_the_file() -> None:
    def may_read(key: str) -> bool:
        return key.endswith(("1.jpg", "2.jpg"))

    found = run_to_completion(filter_recording(FILE, may_read))
    assert keys_in(found.content) == [key for key in KEYS if may_read(key)]
    assert (found.reads, found.dropped, found.index.count) == (50, 200, 50)


def test_a_page_without_a_key_left_is_left_out() -> None:
    found = run_to_completion(filter_recording(FILE, lambda key: key >= KEYS[200]))
    assert keys_in(found.content) == KEYS[200:]


def test_nothing_may_be_left() -> None:
    found = run_to_completion(filter_recording(FILE, lambda _: False))
    assert (keys_in(found.content), found.reads, found.dropped) == ([], 0, 250)


def test_a_truncated_file_is_refused_or_salvaged() -> None:
    cut = FILE[:-40]
    with pytest.raises(MalformedRecording, match="truncated"):
        filtered(cut)
    found = run_to_completion(filter_recording(cut, salvage=True))
    assert keys_in(found.content) == KEYS[:200]
    assert found.index.count == 200


def test_work_yields_several_times_a_page() -> None:
    work = filter_recording(FILE, lambda _: True)
    assert sum(1 for _ in work) >= 3 * 3
