from pathlib import Path

import pytest

from forebay.storage.ssd.reference_bits import HEADER, SLOTS, ReferenceBits, read_mark


def test_a_mark_is_cleared_by_its_test(tmp_path: Path) -> None:
    bits = ReferenceBits(tmp_path / "bits")
    bits.mark(b"a")
    assert bits.test_and_clear(b"a")
    assert not bits.test_and_clear(b"a")
    assert not bits.test_and_clear(b"b")
    bits.close()


def test_processes_share_marks(tmp_path: Path) -> None:
    one, other = ReferenceBits(tmp_path / "bits"), ReferenceBits(tmp_path / "bits")
    one.mark(b"a")
    assert other.test_and_clear(b"a")
    one.disown()
    assert other.is_disowned
    one.close()
    other.close()
    assert read_mark(tmp_path / "bits")


def test_the_file_is_allocated_without_holes(tmp_path: Path) -> None:
    ReferenceBits(tmp_path / "bits").close()
    assert (tmp_path / "bits").stat().st_blocks * 512 >= HEADER + SLOTS


def test_without_a_file_the_bits_are_private(tmp_path: Path) -> None:
    bits = ReferenceBits(tmp_path / "missing" / "bits")
    bits.mark(b"a")
    assert bits.test_and_clear(b"a")
    bits.close()
    assert not read_mark(tmp_path / "missing" / "bits")


def test_a_mark_that_can_not_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    assert read_mark(tmp_path / "touched") == 0
    (tmp_path / "touched").mkdir()
    with pytest.raises(IsADirectoryError):
        read_mark(tmp_path / "touched")
