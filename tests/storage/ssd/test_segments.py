import os
from pathlib import Path

import pytest

from forebay.storage.ssd.segments import Segments


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_what_is_open_stays_what_it_was_when_the_file_is_deleted(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    writer = segments.create(1)
    os.pwrite(writer.fd, b"bytes", 0)
    reader = segments.open_reader(1)
    assert reader is not None
    segments.delete(1)
    assert os.pread(reader.fd, 10, 0) == b"bytes"
    assert segments.open_reader(1) is None
    segments.delete(1)


def test_descriptors_are_bounded_and_closed_only_when_nobody_uses_them(tmp_path: Path) -> None:
    segments = Segments(tmp_path, open_files=2)
    for number in range(5):
        writer = segments.create(number)
        os.pwrite(writer.fd, b"%d" % number, 0)
    first = segments.open_reader(0)
    assert first is not None
    before = open_files()
    for number in range(1, 5):
        assert segments.open_reader(number) is not None
    assert open_files() <= before + 2
    assert os.pread(first.fd, 1, 0) == b"0"


def test_a_number_is_never_made_twice(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    segments.create(1)
    with pytest.raises(FileExistsError):
        segments.create(1)


def test_a_segment_has_a_writer_until_that_lets_go(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    writer = segments.create(1)
    assert segments.has_writer(1)
    del writer
    assert not segments.has_writer(1)
    assert not segments.has_writer(2)


def test_the_numbers_that_are_there(tmp_path: Path) -> None:
    segments = Segments(tmp_path)
    for number in (12, 3):
        segments.create(number)
    (tmp_path / "1x.seg").touch()
    (tmp_path / "notes").touch()
    assert segments.numbers() == [3, 12]
    assert segments.size(3) == segments.size(99) == 0
