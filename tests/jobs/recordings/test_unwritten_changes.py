"""Changes of recordings that wait in memory."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.jobs.recordings.recording import Recording
from forebay.jobs.recordings.recording_files import RecordingFiles
from forebay.jobs.recordings.unwritten_changes import UnwrittenChanges, write_changes


def new_recording(number: int) -> Recording:
    return Recording(f"{number:016x}", "bucket", f"name-{number}", "user", "set", "recording", 100.0, "run", 1)


def noting(noted: list[str], name: str) -> Callable[[RecordingFiles], int]:
    def change(_: RecordingFiles) -> int:
        noted.append(name)
        return len(name)

    return change


def failing(error: Exception) -> Callable[[RecordingFiles], int]:
    def change(_: RecordingFiles) -> int:
        raise error

    return change


@pytest.fixture
def files(tmp_path: Path) -> RecordingFiles:
    return RecordingFiles(tmp_path)


def test_changes_are_made_once_in_their_order(files: RecordingFiles) -> None:
    changes, noted = UnwrittenChanges(), list[str]()
    one, two = new_recording(1), new_recording(2)
    for recording, name in ((one, "a"), (two, "bb"), (one, "ccc")):
        changes.add(recording, noting(noted, name))
    assert len(changes) == 3
    assert write_changes(files, changes.drain()) == [1, 2, 3]
    assert noted == ["a", "bb", "ccc"]
    assert (len(changes), changes.drain()) == (0, [])


def test_forgotten_changes_are_not_made_and_others_are(files: RecordingFiles) -> None:
    changes, noted = UnwrittenChanges(), list[str]()
    one, two = new_recording(1), new_recording(2)
    for recording in (one, two):
        changes.begin(recording)
        changes.add(recording, noting(noted, recording.name))
    assert not changes.forget(one)
    write_changes(files, changes.drain())
    assert noted == ["name-2"]
    assert changes.forget(two)


def test_an_unknown_recording_may_have_files() -> None:
    assert UnwrittenChanges().forget(new_recording(1))


def test_a_change_that_fails_stops_no_other(files: RecordingFiles, caplog: pytest.LogCaptureFixture) -> None:
    changes, noted = UnwrittenChanges(), list[str]()
    changes.add(new_recording(1), failing(OSError("no space")))
    changes.add(new_recording(2), failing(ZeroDivisionError()))
    changes.add(new_recording(3), noting(noted, "made"))
    assert write_changes(files, changes.drain()) == [0, 0, 4]
    levels = [(each.levelno, each.getMessage().split()[2]) for each in caplog.records]
    assert levels == [(logging.WARNING, "name-1"), (logging.ERROR, "name-2")]
