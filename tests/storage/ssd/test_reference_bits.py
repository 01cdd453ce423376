from pathlib import Path

from forebay.storage.ssd.reference_bits import HEADER, SLOTS, ReferenceBits, is_marked_disowned


def test_a_mark_is_cleared_by_its_test(tmp_path: Path) -> None:
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


def test_the_file_is_allocated_without_holes(tmp_path: Path) -> None:
    ReferenceBits(tmp_path / "touched").close()
    assert (tmp_path / "touched").stat().st_blocks * 512 >= HEADER + SLOTS


def test_without_a_file_the_bits_are_private(tmp_path: Path) -> None:
    touched = ReferenceBits(tmp_path / "missing" / "touched")
    touched.mark(b"a")
    assert touched.test_and_clear(b"a")
    touched.close()
    assert not is_marked_disowned(tmp_path / "missing" / "touched")
