"""The names of what was read: written once, found by the next process, gone with the last recording."""

from array import array
from pathlib import Path

import pytest

from forebay.core.errors import MalformedRecording
from forebay.core.read_log import KnownReads
from forebay.jobs.recordings.recording_names import RecordingNames
from harness.loader_orders import sample_keys

KEYS = sample_keys(5000)


def known_of(keys: list[str]) -> KnownReads:
    known = KnownReads()
    for key in keys:
        known.add(key, 1000)
    return known


def found_in(directory: Path, names_id: str) -> list[str]:
    return RecordingNames(directory).find(bytes.fromhex(names_id)).keys


def test_names_are_written_once_however_often_they_are_read(tmp_path: Path) -> None:
    names, known = RecordingNames(tmp_path), known_of(KEYS[:3000])
    names_id = names.write(known, array("I", [7, 2999]))
    size = names.size
    assert found_in(tmp_path, names_id) == KEYS[:3000]
    assert names.write(known, array("I", range(3000))) == names_id
    assert names.size == size == (tmp_path / f"{names_id}.names").stat().st_size
    for key in KEYS[3000:]:
        known.add(key, 1000)
    assert names.write(known, array("I", [4000])) == names_id
    assert found_in(tmp_path, names_id) == names.find(bytes.fromhex(names_id)).keys == KEYS
    assert names.size_of(names_id, 100) == 100 * names.size // 5000


def test_each_log_has_names_of_its_own(tmp_path: Path) -> None:
    names, logs = RecordingNames(tmp_path), [known_of(KEYS[:20]), known_of(KEYS[20:50])]
    ids = [names.write(known, array("I", [0])) for known in logs]
    assert [found_in(tmp_path, each) for each in ids] == [KEYS[:20], KEYS[20:50]]


def test_names_that_no_recording_needs_go_and_are_written_anew(tmp_path: Path) -> None:
    names, known = RecordingNames(tmp_path), known_of(KEYS[:9])
    first = names.write(known, array("I", [3]))
    for _ in range(2):
        names.use(first)
    names.release(first)
    assert found_in(tmp_path, first) == KEYS[:9]
    names.release(first)
    assert (list(tmp_path.iterdir()), names.size) == ([], 0)
    with pytest.raises(MalformedRecording, match="can't be read"):
        names.find(bytes.fromhex(first))
    second = names.write(known, array("I", [3]))
    assert second != first
    assert found_in(tmp_path, second) == KEYS[:9]


def test_a_later_process_has_the_names_in_use_alone(tmp_path: Path) -> None:
    before = RecordingNames(tmp_path)
    logs = [known_of(KEYS[:20]), known_of(KEYS[20:40])]
    kept, left = (before.write(known, array("I", [0])) for known in logs)
    names = RecordingNames(tmp_path)
    names.use(kept)
    names.remove_unused()
    assert [path.stem for path in tmp_path.iterdir()] == [kept]
    assert names.size == (tmp_path / f"{kept}.names").stat().st_size
    with pytest.raises(ValueError, match="missing"):
        names.use(left)


def test_of_names_that_break_off_whole_pages_are_found(tmp_path: Path) -> None:
    names_id = RecordingNames(tmp_path).write(known_of(KEYS), array("I", [4999]))
    path = tmp_path / f"{names_id}.names"
    path.write_bytes(path.read_bytes()[:-1])
    assert found_in(tmp_path, names_id) == KEYS[:4096]


def test_behind_names_that_could_not_be_written_others_begin(tmp_path: Path) -> None:
    names, known = RecordingNames(tmp_path), known_of(KEYS[:9])
    first = names.write(known, array("I", [8]))
    names.use(first)
    path = tmp_path / f"{first}.names"
    path.rename(tmp_path / "aside")
    path.mkdir()
    known.add(KEYS[9], 1000)
    with pytest.raises(IsADirectoryError):
        names.write(known, array("I", [9]))
    assert found_in(tmp_path, names.write(known, array("I", [9]))) == KEYS[:10]
