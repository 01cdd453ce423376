from pathlib import Path

from forebay.storage.ssd.reference_bits import HEADER, SLOTS, Touched, marked_disowned


def test_a_mark_is_taken_once(tmp_path: Path) -> None:
    touched = Touched(tmp_path / "touched")
    touched.mark(b"a")
    assert touched.take(b"a")
    assert not touched.take(b"a")
    assert not touched.take(b"b")
    touched.close()


def test_processes_share_marks(tmp_path: Path) -> None:
    one, other = Touched(tmp_path / "touched"), Touched(tmp_path / "touched")
    one.mark(b"a")
    assert other.take(b"a")
    one.disown()
    assert other.disowned
    one.close()
    other.close()
    assert marked_disowned(tmp_path / "touched")


def test_the_file_has_no_holes_which_a_full_disk_could_not_fill(tmp_path: Path) -> None:
    Touched(tmp_path / "touched").close()
    assert (tmp_path / "touched").stat().st_blocks * 512 >= HEADER + SLOTS


def test_without_a_file_it_is_private(tmp_path: Path) -> None:
    touched = Touched(tmp_path / "missing" / "touched")
    touched.mark(b"a")
    assert touched.take(b"a")
    touched.close()
    assert not marked_disowned(tmp_path / "missing" / "touched")
