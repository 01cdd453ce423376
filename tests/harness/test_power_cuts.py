"""The model of power cuts: what a missing sync may cost is among the states, and nothing else is."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from forebay.storage.durable_files import make_directory, replace_file, sync_directory
from harness.power_cuts import PowerCuts

OLD, NEW = b"old" * 400, b"new" * 400


def found_after(tmp_path: Path, program: Callable[[Path], object]) -> set[bytes | None]:
    """What the file "a" may have in it if the machine stops behind the program."""
    directory = tmp_path / "machine"
    directory.mkdir()
    (directory / "a").write_bytes(OLD)
    has_ended = False
    cuts = PowerCuts(directory, lambda: has_ended)
    with cuts.recorded():
        program(directory)
        has_ended = True
    found = set[bytes | None]()
    for left, is_behind in cuts.states(tmp_path / "left", Random(1), 200):
        content = (left / "a").read_bytes() if (left / "a").exists() else None
        assert is_behind or content is not None
        if is_behind:
            found.add(content)
    return found


def test_a_file_that_is_replaced_durably_is_the_new_one(tmp_path: Path) -> None:
    assert found_after(tmp_path, lambda directory: replace_file(directory / "a", NEW)) == {NEW}


def test_a_write_without_a_sync_may_be_torn(tmp_path: Path) -> None:
    found = found_after(tmp_path, lambda directory: (directory / "a").write_bytes(NEW))
    assert found >= {OLD, NEW}
    assert any(content is not None and content[:512] != content[512:1024] for content in found)


def test_a_rename_without_syncs_may_show_an_empty_file(tmp_path: Path) -> None:
    def program(directory: Path) -> None:
        (directory / "b").write_bytes(NEW)
        (directory / "b").replace(directory / "a")

    found = found_after(tmp_path, program)
    assert found >= {OLD, NEW, bytes(len(NEW)), b""}


def test_a_rename_is_there_once_its_directory_is_synced(tmp_path: Path) -> None:
    def program(directory: Path) -> None:
        (directory / "b").write_bytes(NEW)
        (directory / "b").replace(directory / "a")
        sync_directory(directory)

    found = found_after(tmp_path, program)
    assert OLD not in found
    assert found >= {NEW, b""}


def test_a_removal_is_one_once_its_directory_is_synced(tmp_path: Path) -> None:
    def program(directory: Path) -> None:
        make_directory(directory / "made" / "here")
        (directory / "a").rename(directory / "made" / "here" / "a")
        sync_directory(directory)

    assert found_after(tmp_path, program) == {None}
