"""A private directory belongs to this process alone, and abandoned ones are removed."""

import fcntl
import os
import tempfile
from pathlib import Path

import pytest

from forebay.core.errors import StartError
from forebay.storage.private_directory import PrivateDirectory, temporary_directory
from harness.file_limit import file_size_limit
from harness.forked import in_a_fork

PREFIX = "forebay-test-"


def made_in(parent: Path) -> PrivateDirectory:
    return PrivateDirectory.create(parent, PREFIX)


def abandoned(parent: Path, name: str = "dead") -> Path:
    """The directory of a killed process."""
    left = parent / f"{PREFIX}{name}"
    left.mkdir()
    (left / "lock").touch()
    (left / "content").write_bytes(b"left")
    return left


def test_the_directory_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    one, other = made_in(tmp_path), made_in(tmp_path)
    assert one.path.stat().st_mode & 0o777 == 0o700
    assert sorted(tmp_path.iterdir()) == sorted([one.path, other.path]), "neither takes the other for abandoned"
    (one.path / "content").write_bytes(b"ours")
    one.remove()
    other.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_directory_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    left = abandoned(tmp_path)
    made_in(tmp_path).remove()
    assert not left.exists()


def test_a_failed_creation_raises_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        made_in(tmp_path / "nowhere")


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """Anybody who may write to the parent could have us open and lock any file of ours."""
    left, ours = abandoned(tmp_path), tmp_path / "ours"
    ours.touch()
    (left / "lock").unlink()
    (left / "lock").symlink_to(ours)
    made_in(tmp_path).remove()
    assert left.exists()


def test_a_directory_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    left = abandoned(elsewhere)
    parent = tmp_path / "parent"
    parent.mkdir()
    (parent / left.name).symlink_to(left)
    made_in(parent).remove()
    assert (left / "content").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to somebody else")
@pytest.mark.parametrize("changed", ["", "lock"])
def test_a_directory_of_somebody_else_is_left_alone(changed: str, tmp_path: Path) -> None:
    left = abandoned(tmp_path)
    os.chown(left / changed, 65534, 65534)
    made_in(tmp_path).remove()
    assert (left / "content").exists()


def test_a_directory_in_use_is_left_alone(tmp_path: Path) -> None:
    left = abandoned(tmp_path)
    with (left / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made_in(tmp_path).remove()
        assert (left / "content").exists()
    made_in(tmp_path).remove()
    assert not left.exists()


def test_a_system_without_temporary_files_is_a_start_error() -> None:
    """As a container whose root is read-only, and which has no volume for /tmp."""

    def look() -> str:
        tempfile.tempdir = None
        with file_size_limit(0), pytest.raises(StartError, match="TMPDIR") as refused:
            temporary_directory()
        return str(refused.value)

    assert "no directory for temporary files can be written (TMPDIR): " in in_a_fork(look)
