"""The directory of a spool's files: of this process alone, and gone when its process is."""

import shutil
from pathlib import Path

import pytest

from forebay.storage.spool_directory import SpoolDirectory


def directories(parent: Path) -> list[str]:
    return sorted(each.name for each in parent.glob("*"))


def abandon(parent: Path) -> str:
    """Leaves what a killed process has: its lock is held by nobody."""
    abandoned = parent / "forebay-holds-dead"
    abandoned.mkdir(parents=True)
    (abandoned / "lock").touch()
    (abandoned / "7").write_bytes(b"left")
    return abandoned.name


def test_files_have_names_of_their_own(tmp_path: Path) -> None:
    directory = SpoolDirectory(tmp_path / "held")
    assert not (tmp_path / "held").exists()  # nothing is created before the first file
    first, second = directory.new_file(), directory.new_file()
    assert first.parent == second.parent
    assert (first.name, second.name) == ("0", "1")
    directory.remove()
    assert directories(tmp_path / "held") == []


def test_only_directories_of_killed_processes_are_removed(tmp_path: Path) -> None:
    abandoned = abandon(tmp_path)
    first, second = SpoolDirectory(tmp_path), SpoolDirectory(tmp_path)
    first.new_file()
    assert abandoned not in directories(tmp_path)
    second.new_file()
    assert len(directories(tmp_path)) == 2
    first.remove()
    second.remove()


def test_what_a_killed_process_left_is_removed_before_a_file(tmp_path: Path) -> None:
    directory = SpoolDirectory(tmp_path / "held")
    directory.remove_abandoned()  # also where there is no parent
    abandon(tmp_path / "held")
    directory.remove_abandoned()
    assert directories(tmp_path / "held") == []


def test_a_directory_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    directory = SpoolDirectory(tmp_path / "held")
    lost = directory.new_file()
    shutil.rmtree(tmp_path / "held")
    again = directory.new_file()
    assert again.parent != lost.parent
    assert again.parent.is_dir()
    directory.remove()


def test_a_failure_names_the_parent_and_its_reason(tmp_path: Path) -> None:
    (tmp_path / "held").write_text("a file where the directory should be")
    directory = SpoolDirectory(tmp_path / "held")
    with pytest.raises(OSError, match="exists") as failure:
        directory.new_file()
    assert str(tmp_path / "held") in str(directory.failed(failure.value))
