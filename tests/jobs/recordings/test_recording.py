"""What is known of a recording, and which automatic ones are kept."""

import json

import pytest

from forebay.jobs.recordings.recording import (
    RING_SIZE,
    Recording,
    automatic_name,
    is_recording_name,
    recording_from,
    recordings_to_drop,
)
from forebay.policy.anchor_index import AnchorIndex


def recorded(run: str, epoch: int, ended: float, **fields: object) -> Recording:
    recording = Recording(f"{run}{epoch}", "bucket", f"r{epoch}", "user", "set", "automatic", ended - 1, run, epoch)
    recording.ended = ended
    for name, value in fields.items():
        setattr(recording, name, value)
    return recording


def kept(recordings: list[Recording]) -> list[str]:
    dropped = {each.id for each in recordings_to_drop(recordings)}
    return [each.id for each in recordings if each.id not in dropped]


def test_of_a_long_run_the_first_and_the_latest_epochs_are_kept() -> None:
    run = [recorded("a", epoch, float(epoch)) for epoch in range(1, 31)]
    assert kept(run) == ["a1", "a2", "a3", "a4", "a5", "a6", "a29", "a30"]


def test_of_many_runs_the_first_epochs_are_kept() -> None:
    sweep = [recorded(run, epoch, nth * 10.0 + epoch) for nth, run in enumerate("abcdef") for epoch in (1, 2, 3)]
    assert kept(sweep) == ["a1", "b1", "c1", "d1", "e1", "f1", "f2", "f3"]


def test_a_run_that_was_recognised_lately_is_worth_more() -> None:
    sweep = [recorded(run, 1, float(nth)) for nth, run in enumerate("abcdefghij")]
    sweep[0].used = 100.0
    assert kept(sweep) == ["a1", "d1", "e1", "f1", "g1", "h1", "i1", "j1"]


def test_saved_recordings_are_neither_counted_nor_dropped() -> None:
    run = [recorded("a", epoch, float(epoch), state="saved") for epoch in range(1, RING_SIZE * 2)]
    assert recordings_to_drop(run) == []


def test_a_recording_survives_its_document() -> None:
    recording = recorded("a", 1, 5.0, reads=100, size=1000, file_size=80)
    assert recording_from(json.loads(json.dumps(recording.to_document()))) == recording


class UncopiedIndex(AnchorIndex):
    """Thousands of positions."""

    def __deepcopy__(self, memo: object) -> AnchorIndex:
        raise AssertionError("a millisecond for each document")


def test_a_document_is_made_without_a_copy_of_the_index() -> None:
    assert "index" not in recorded("a", 1, 5.0, index=UncopiedIndex()).to_document()


@pytest.mark.parametrize(
    "change",
    [{"bucket": "a/b"}, {"name": "../x"}, {"name": ""}, {"more": 1}],
)
def test_a_document_of_no_recording_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="describes"):
        recording_from(recorded("a", 1, 5.0).to_document() | change)
    with pytest.raises(ValueError, match="describes"):
        recording_from([])


def test_a_document_without_a_fact_is_refused() -> None:
    document = recorded("a", 1, 5.0).to_document()
    for fact in document:
        with pytest.raises(ValueError, match="describes no recording"):
            recording_from({name: value for name, value in document.items() if name != fact})


@pytest.mark.parametrize("name", ["a", "Nightly-2.1_b", "0" * 128, automatic_name("20260101T000000Z", "abcdef")])
def test_names_of_recordings(name: str) -> None:
    assert is_recording_name(name)


@pytest.mark.parametrize("name", ["", ".", "-a", "_a", "a/b", "a b", "ä", "a\n", "0" * 129])
def test_what_is_no_name_of_a_recording(name: str) -> None:
    assert not is_recording_name(name)
