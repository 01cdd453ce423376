"""Sums of files: what was written in another boot is verified, what was written in this one is not read."""

from pathlib import Path

import pytest

from forebay.storage.file_sums import FileSum, boot_id, check_sums, write_sums

CONTENT = bytes(range(256)) * 5000


def write(directory: Path, boot: str = "one") -> None:
    (directory / "keys").write_bytes(CONTENT)
    (directory / "empty").write_bytes(b"")
    known = FileSum().extended(CONTENT[:100]).extended(CONTENT[100:])
    assert known == FileSum().extended(CONTENT)
    write_sums(directory, {"keys": known, "empty": FileSum()}, boot)


@pytest.mark.parametrize("boot", ["one", "two", ""])
def test_whole_files_are_whole_in_every_boot(tmp_path: Path, boot: str) -> None:
    write(tmp_path)
    check_sums(tmp_path, boot)


@pytest.mark.parametrize("content", [b"", CONTENT[:-1], CONTENT[:-1] + b"x", bytes(len(CONTENT)), CONTENT + b"x"])
def test_damage_is_found_in_another_boot(tmp_path: Path, content: bytes) -> None:
    write(tmp_path)
    (tmp_path / "keys").write_bytes(content)
    check_sums(tmp_path, "one")
    with pytest.raises(ValueError, match="keys is damaged"):
        check_sums(tmp_path, "two")
    (tmp_path / "keys").unlink()
    with pytest.raises(FileNotFoundError):
        check_sums(tmp_path, "two")


@pytest.mark.parametrize("sums", [b"", b"\0" * 100, b"\xff", b"one\n", b"one\nkeys", b"one\nkeys 1 x"])
def test_damaged_sums_vouch_for_nothing(tmp_path: Path, sums: bytes) -> None:
    write(tmp_path)
    (tmp_path / "sums").write_bytes(sums)
    with pytest.raises(ValueError):
        check_sums(tmp_path, "two")


def test_what_was_written_in_no_known_boot_is_verified(tmp_path: Path) -> None:
    write(tmp_path, "")
    check_sums(tmp_path, "")
    (tmp_path / "keys").write_bytes(b"")
    with pytest.raises(ValueError, match="keys is damaged"):
        check_sums(tmp_path, "")


def test_this_boot_is_known() -> None:
    assert len(boot_id()) == 36
    assert boot_id() == boot_id()
