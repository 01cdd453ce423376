"""Body files: ranges are read and verified by themselves."""

import ctypes
import errno
import os
from itertools import pairwise
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.core_yield import CoreYield
from forebay.protocol.body.crc64 import crc64
from forebay.storage.journal.body_file import (
    READ_STEP,
    REMOVED,
    SLICE,
    BodyDamaged,
    BodyReader,
    BodyRef,
    BodyWriter,
    remove_body,
)
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout

FILES = JournalFiles()


@pytest.fixture
def layout(tmp_path: Path) -> JournalLayout:
    (tmp_path / "bodies").mkdir()
    return JournalLayout(str(tmp_path))


def _write(layout: JournalLayout, *pieces: bytes) -> BodyRef:
    body = BodyWriter(FILES, layout)
    for piece in pieces:
        body.append([piece])
    ref = body.finish()
    body.release()
    return ref


def _read(layout: JournalLayout, ref: BodyRef, start: int, stop: int) -> bytes:
    reader = BodyReader(FILES, layout, ref)
    try:
        return bytes(reader.read(Span(start, stop)))
    finally:
        reader.close()


@pytest.mark.parametrize("size", [1, SLICE - 1, SLICE, SLICE + 1, 3 * SLICE])
def test_any_range_is_read(layout: JournalLayout, size: int) -> None:
    content = os.urandom(size)
    ref = _write(layout, content[:7], content[7 : SLICE - 3], content[SLICE - 3 :])
    assert ref.size == size
    for start, stop in ((0, size), (0, 1), (size - 1, size), (size // 2, size)):
        assert _read(layout, ref, start, stop) == content[start:stop]


@pytest.mark.parametrize("size", [0, 1, SLICE - 1, SLICE, 2 * SLICE + 5])
def test_the_crc_of_a_body_follows_from_its_slices(layout: JournalLayout, size: int) -> None:
    content = os.urandom(size)
    body = BodyWriter(FILES, layout)
    body.append([content[: size // 3], content[size // 3 :]])
    body.finish()
    assert (body.crc, body.size) == (crc64(content), size)
    body.discard()


def test_damage_is_found_where_it_is(layout: JournalLayout) -> None:
    content = os.urandom(3 * SLICE)
    ref = _write(layout, content)
    file = Path(layout.body(ref.id))
    damaged = bytearray(file.read_bytes())
    damaged[SLICE + 5] ^= 1
    file.write_bytes(damaged)
    assert _read(layout, ref, 0, SLICE) == content[:SLICE]
    assert _read(layout, ref, 2 * SLICE, 3 * SLICE) == content[2 * SLICE :]
    with pytest.raises(BodyDamaged, match="MiB 1"):
        _read(layout, ref, SLICE, SLICE + 1)


def test_damaged_checksums_a_short_file_and_none_are_damage(layout: JournalLayout) -> None:
    ref = _write(layout, b"x" * SLICE)
    file = Path(layout.body(ref.id))
    whole = file.read_bytes()
    for content in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1]), b""):
        file.write_bytes(content)
        with pytest.raises(BodyDamaged):
            _read(layout, ref, 0, 1)
    file.unlink()
    with pytest.raises(BodyDamaged, match="missing"):
        _read(layout, ref, 0, 1)


class _NotedReads(JournalFiles):
    """Notes which bytes are read in one call, and where the core is yielded: as "yield"."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[int, int] | str] = []
        self.yield_core = CoreYield(lambda: self.calls.append("yield"), lambda: 0.0)

    def read_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        self.calls.append((offset, len(buffer)))
        return super().read_into(fd, buffer, offset)

    def truncate(self, fd: int, size: int) -> None:
        self.calls.append((size, 0))
        super().truncate(fd, size)


def test_a_body_is_read_in_short_steps(layout: JournalLayout) -> None:
    """The loop may run between two of them."""
    content, files = os.urandom(SLICE + READ_STEP + 1), _NotedReads()
    ref = _write(layout, content)
    reader = BodyReader(files, layout, ref)
    assert reader.read(Span(SLICE - 1, len(content))) == content[SLICE - 1 :]
    reader.close()
    steps = [(start, READ_STEP) for start in range(0, SLICE + READ_STEP, READ_STEP)] + [(SLICE + READ_STEP, 1)]
    assert files.calls == [call for step in steps for call in (step, "yield")]


def test_the_loop_may_run_between_steps_of_a_removal(tmp_path: Path) -> None:
    file, files = tmp_path / "body", _NotedReads()
    with file.open("wb") as made:
        made.truncate(2 * REMOVED + 1)
    remove_body(files, str(file))
    assert files.calls == [(REMOVED + 1, 0), "yield", (1, 0), "yield"]


def test_memory_of_a_read_serves_the_next_one(layout: JournalLayout) -> None:
    """New memory costs more than the read: the kernel clears it page by page."""
    ref = _write(layout, b"a" * SLICE + b"b" * SLICE + b"c" * SLICE)
    reader = BodyReader(FILES, layout, ref)
    first, second = reader.read(Span(0, SLICE)), reader.read(Span(SLICE, 2 * SLICE))
    assert (bytes(first), bytes(second)) == (b"a" * SLICE, b"b" * SLICE)
    kept, address = first[:3], _address(second)
    del first, second
    assert _address(reader.read(Span(2 * SLICE, 3 * SLICE))) == address
    assert bytes(kept) == b"aaa"
    reader.close()


def _address(view: memoryview) -> int:
    return ctypes.addressof(view.obj)  # type: ignore[arg-type] # a slot is a ctypes array


class _WritebackFiles(JournalFiles):
    def __init__(self) -> None:
        super().__init__()
        self.begun: list[tuple[int, int]] = []

    def start_writeback(self, fd: int, offset: int, size: int) -> None:
        super().start_writeback(fd, offset, size)
        self.begun.append((offset, size))


def test_the_disk_begins_before_the_body_ends(layout: JournalLayout) -> None:
    files = _WritebackFiles()
    body = BodyWriter(files, layout)
    for _ in range(9):
        body.append([bytes(SLICE)])
    body.finish()
    body.discard()
    assert files.begun == [(0, 4 * SLICE), (4 * SLICE, 4 * SLICE)]


class _Sizes(JournalFiles):
    """Notes how large a file is after each call that frees some of it."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.is_named = True

    def truncate(self, fd: int, size: int) -> None:
        super().truncate(fd, size)
        self.sizes.append(self.size(fd))
        self.is_named = self.is_named and os.fstat(fd).st_nlink > 0

    def close(self, fd: int) -> None:
        self.sizes.append(0)
        super().close(fd)


@pytest.mark.parametrize("size", [0, 1, REMOVED - 1, REMOVED, REMOVED + 1, 4 * REMOVED + 5])
def test_a_body_is_removed_some_at_a_time(tmp_path: Path, size: int) -> None:
    """It has no name any more when its bytes go: who looks for it finds all of it or nothing."""
    file, files = tmp_path / "body", _Sizes()
    with file.open("wb") as made:
        made.truncate(size)
    remove_body(files, str(file))
    assert not file.exists()
    freed = [before - after for before, after in pairwise([size, *files.sizes])]
    assert max(freed) <= REMOVED
    assert sum(freed) == size
    assert not files.is_named or size <= REMOVED


class _NoTruncation(JournalFiles):
    def truncate(self, fd: int, size: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_body_without_a_name_is_removed_whatever_the_disk_says(layout: JournalLayout) -> None:
    """Its bytes go with the descriptor."""
    ref = _write(layout, bytes(3 * REMOVED))
    remove_body(_NoTruncation(), layout.body(ref.id))
    assert not Path(layout.body(ref.id)).exists()


def test_a_reader_of_a_body_that_is_removed_finds_it_damaged(layout: JournalLayout) -> None:
    content = bytes(2 * REMOVED)
    ref = _write(layout, content)
    reader = BodyReader(FILES, layout, ref)
    remove_body(FILES, layout.body(ref.id))
    with pytest.raises(BodyDamaged):
        reader.read(Span(len(content) - 1, len(content)))
    reader.close()
    with pytest.raises(BodyDamaged, match="missing"):
        BodyReader(FILES, layout, ref)
