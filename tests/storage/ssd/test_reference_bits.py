from pathlib import Path

from forebay.storage.ssd.reference_bits import HEADER, SLOTS, ReferenceBits, is_marked_disowned


def test_a_mark_is_taken_once(tmp_path: Path) -> None:
    touched = ReferenceBits(tmp_path / "touched")
    touched.mark(b"a")
    assert touched.test_and_clear(b"a")
    assert not touched.test_and_clear(b"a")
    assert not touched.test_and_clear(b"b")
    touched.close()


def test_processes_share_marks(tmp_path: Path) -> None:
    one, other = ReferenceBits(tmp_path / "touched"), ReferenceBits(tmp_path / "touched")
    one.mark(b"a")
    assert other.test_and_clear(b"a")
    one.disown()
    assert other.is_disowned
    one.close()
    other.close()
    assert is_marked_disowned(tmp_path / "touched")


def test_the_file_has_no_holes_which_a_full_disk_could_not_fill(tmp_path: Path) -> None:
    ReferenceBits(tmp_path / "touched").close()
    assert (tmp_path / "touched").stat().st_blocks * 512 >= HEADER + SLOTS


def test_without_a_file_it_is_private(tmp_path: Path) -> None:
    touched = ReferenceBits(tmp_path / "missing" / "touched")
    touched.mark(b"a")
    assert touched.test_and_clear(b"a")
    touched.close()
    assert not is_marked_disowned(tmp_path / "missing" / "touched")
