import stat
from pathlib import Path

import pytest

from forebay.core.errors import SsdUnusable
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.ssd.ssd_directory import SsdDirectory
from harness.ssd_rig import ORIGIN


def test_the_directory_is_private_to_its_owner(tmp_path: Path) -> None:
    directory = SsdDirectory.claim(tmp_path / "a" / "b", None)
    directory.initialise(CacheOrigins.single(ORIGIN))
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    for file in directory.path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600)
    directory.release()


def test_a_second_owner_is_refused_until_the_first_releases(tmp_path: Path) -> None:
    first = SsdDirectory.claim(tmp_path / "ssd", None)
    with pytest.raises(SsdUnusable, match="another Forebay"):
        SsdDirectory.claim(tmp_path / "ssd", None)
    first.release()
    SsdDirectory.claim(tmp_path / "ssd", None).release()


def test_a_family_shares_and_keeps_others_out(tmp_path: Path) -> None:
    first = SsdDirectory.claim(tmp_path / "ssd", "family")
    assert first.is_exclusive
    first.share()
    second = SsdDirectory.claim(tmp_path / "ssd", "family")
    assert not second.is_exclusive
    for other in (None, "others"):
        with pytest.raises(SsdUnusable, match="another Forebay"):
            SsdDirectory.claim(tmp_path / "ssd", other)
    first.release()
    assert second.is_last()
    second.release()


def test_one_of_a_family_does_the_housekeeping(tmp_path: Path) -> None:
    first = SsdDirectory.claim(tmp_path / "ssd", "family")
    first.share()
    second = SsdDirectory.claim(tmp_path / "ssd", "family")
    assert first.elect()
    assert not second.elect()
    first.release()
    assert second.elect()
    second.release()


def test_the_processes_of_a_family_reclaim_in_turns(tmp_path: Path) -> None:
    first = SsdDirectory.claim(tmp_path / "ssd", "family")
    first.share()
    second = SsdDirectory.claim(tmp_path / "ssd", "family")
    assert first.lock_reclaim()
    assert first.lock_reclaim()
    assert not second.lock_reclaim()
    first.unlock_reclaim()
    assert second.lock_reclaim()
    second.release()
    assert first.lock_reclaim()
    first.release()


def test_a_file_in_place_of_the_directory_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SsdUnusable, match="file: Not a directory"):
        SsdDirectory.claim(tmp_path / "file", None)


def test_files_of_other_users_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    tmp_path.chmod(0o755)
    with pytest.raises(SsdUnusable, match="neither empty nor"):
        SsdDirectory.claim(tmp_path, None)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_fresh_file_system_is_empty_enough(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    SsdDirectory.claim(tmp_path, None).release()


def test_a_path_that_is_no_directory_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/forebay")):
        with pytest.raises(SsdUnusable):
            SsdDirectory.claim(path, None)


def test_content_without_format_is_none(tmp_path: Path) -> None:
    directory = SsdDirectory.claim(tmp_path / "ssd", None)
    begun = directory.initialise(CacheOrigins.single(ORIGIN))
    assert directory.read_format() == begun
    directory.disown()
    assert directory.read_format() is None
    directory.release()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b'{"layout": 1, "salt": "00"}',
        b'{"layout": 4, "salt": 1}',
        b'{"layout": 4, "salt": "00", "routes": "", "origins": []}',
        b'{"layout": 4, "salt": "%s", "routes": "", "origins": [{"id": "y", "name": "x"}]}' % (b"00" * 16),
    ],
)
def test_a_garbage_format_is_none(tmp_path: Path, content: bytes) -> None:
    directory = SsdDirectory.claim(tmp_path / "ssd", None)
    (directory.path / "FORMAT").write_bytes(content)
    assert directory.read_format() is None
    directory.release()


def test_discarding_renames_and_deleting_is_in_steps(tmp_path: Path) -> None:
    directory = SsdDirectory.claim(tmp_path / "ssd", None)
    directory.initialise(CacheOrigins.single(ORIGIN))
    for number in range(3):
        (directory.segments / f"{number}.seg").write_bytes(b"x")
    directory.discard()
    assert not directory.segments.exists()
    assert not directory.index.exists()
    steps = 0
    while directory.delete_discarded():
        steps += 1
    assert steps >= 3
    assert not directory.discarded.exists()
    directory.release()


def test_a_format_that_can_not_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    """Or all that is cached would be discarded."""
    directory = SsdDirectory.claim(tmp_path / "ssd", None)
    assert directory.read_format() is None
    (tmp_path / "ssd" / "FORMAT").mkdir()
    with pytest.raises(IsADirectoryError):
        directory.read_format()
    directory.release()
