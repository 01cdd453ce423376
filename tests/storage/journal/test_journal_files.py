"""Durable writes by one system call: where the file system is known to honour it, and whole in any case."""

from pathlib import Path

import pytest

from forebay.storage.journal.journal_files import JournalFiles, honours_dsync

_KNOWN = {"ext3", "ext4", "xfs", "btrfs"}


def _mounts() -> dict[str, str]:
    """The types of the file systems that are mounted, by path."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return {path: kind for _, path, kind, *_ in map(str.split, lines)}


def test_file_systems_are_known_by_their_type() -> None:
    mounts = {path: kind for path, kind in _mounts().items() if Path(path).is_dir()}
    assert {path: honours_dsync(Path(path)) for path in mounts} == {
        path: kind in _KNOWN for path, kind in mounts.items()
    }


def test_a_directory_to_be_made_is_on_the_disk_of_its_parent(tmp_path: Path) -> None:
    assert honours_dsync(tmp_path / "to" / "be" / "made") == honours_dsync(tmp_path)
    assert not honours_dsync(Path("/proc/to/be/made"))


@pytest.mark.parametrize("is_dsync_honoured", [False, True])
def test_durable_writes_are_whole_and_timed(tmp_path: Path, *, is_dsync_honoured: bool) -> None:
    syncs: list[float] = []
    files = JournalFiles(syncs.append, is_dsync_honoured=is_dsync_honoured)
    fd = files.create(str(tmp_path / "file"))
    files.write(fd, [b"before"], 0)
    files.write_durably(fd, [b"1", memoryview(b"234"), b""], 6)
    files.write_durably(fd, [b"x"] * 3000, 10)  # more buffers than one call takes
    assert files.read(fd, 10_000, 0) == b"before1234" + b"x" * 3000
    assert len(syncs) == 2
    files.close(fd)


class _Counted(JournalFiles):
    """Counts the calls that a durable write is made of where it is not one."""

    def __init__(self, *, is_dsync_honoured: bool) -> None:
        super().__init__(is_dsync_honoured=is_dsync_honoured)
        self.syncs = 0

    def sync(self, fd: int) -> None:
        self.syncs += 1
        super().sync(fd)


@pytest.mark.parametrize(("is_dsync_honoured", "syncs"), [(False, 1), (True, 0)])
def test_it_is_one_call_only_where_it_is_honoured(tmp_path: Path, *, is_dsync_honoured: bool, syncs: int) -> None:
    files = _Counted(is_dsync_honoured=is_dsync_honoured)
    fd = files.create(str(tmp_path / "file"))
    files.write_durably(fd, [b"content"], 0)
    assert files.syncs == syncs
    files.close(fd)


@pytest.mark.parametrize("is_dsync_honoured", [False, True])
def test_a_failure_is_raised(tmp_path: Path, *, is_dsync_honoured: bool) -> None:
    (tmp_path / "file").write_bytes(b"")
    files = JournalFiles(is_dsync_honoured=is_dsync_honoured)
    fd = files.open(str(tmp_path / "file"))
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.write_durably(fd, [b"content"], 0)
    files.close(fd)
