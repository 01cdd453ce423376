"""Upload notes: what earlier runs have created at origins and not ended, whatever a line of the file looks like."""

from pathlib import Path

from forebay.core.names import ObjectName
from forebay.storage.journal.upload_notes import NotedUpload, UploadNotes

NAME = ObjectName("ckpt", "a/\udcff\n key")


def _left(file: Path, run: int) -> list[str]:
    return [each.upload_id for each in UploadNotes(str(file), run).take_left()]


def test_uploads_of_earlier_runs_without_an_end_are_left(tmp_path: Path) -> None:
    file = tmp_path / "own-uploads"
    assert _left(file, 1) == []
    first = UploadNotes(str(file), 1)
    for each in ("a", "b", "c"):
        first.add(NAME, each)
    first.end("b")
    assert first.take_left() == []
    found = UploadNotes(str(file), 2).take_left()
    assert found == [NotedUpload(1, NAME, "a"), NotedUpload(1, NAME, "c")]
    UploadNotes(str(file), 2).end("a")
    UploadNotes(str(file), 2).add(NAME, "d")
    assert (_left(file, 2), _left(file, 3)) == (["c"], ["c", "d"])


def test_the_file_keeps_what_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "own-uploads"
    first = UploadNotes(str(file), 1)
    for number in range(100):
        first.add(NAME, f"upload-{number}")
        first.end(f"upload-{number}")
    first.add(NAME, "left")
    before = file.stat().st_size
    assert _left(file, 1) == []
    assert file.stat().st_size == before, "this run has lines of its own, and other workers may add more"
    assert _left(file, 2) == ["left"]
    assert file.stat().st_size < before / 100
    assert _left(file, 2) == ["left"]


def test_lines_that_are_none_of_its_own_are_skipped(tmp_path: Path) -> None:
    file = tmp_path / "own-uploads"
    UploadNotes(str(file), 1).add(NAME, "a")
    file.write_bytes(
        b'[1, "b"]\n{}\n["\xff"]\n[]\n"a"\n[1, "ckpt", "k", 7]\n' + file.read_bytes() + b'[1, "ckpt", "k", "t'
    )
    assert _left(file, 2) == ["a"]


def test_a_file_that_cannot_be_used_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_bytes(b"")
    link = tmp_path / "own-uploads"
    link.symlink_to(target)
    UploadNotes(str(link), 1).add(NAME, "a")
    assert target.read_bytes() == b""
    UploadNotes(str(tmp_path / "missing" / "own-uploads"), 1).add(NAME, "a")
    assert _left(tmp_path / "missing" / "own-uploads", 2) == []
