"""Sealed memory: nobody can change it or its size, and the kernel says who has it."""

import fcntl
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.server.shared_memory.sealed_memory import SealedMemory

SIZE = 1 << 16


@pytest.fixture
def memory() -> Iterator[SealedMemory]:
    made = SealedMemory(SIZE)
    yield made
    made.close()


def test_a_reader_sees_what_is_written_here(memory: SealedMemory) -> None:
    reader = memory.file.open_reader()
    with mmap.mmap(reader, SIZE, mmap.MAP_SHARED, mmap.PROT_READ) as mapped:
        os.close(reader)
        memory.view[100:104] = b"here"
        assert mapped[100:104] == b"here"


def test_no_process_can_write_or_change_the_size(memory: SealedMemory) -> None:
    reader = memory.file.open_reader()
    assert fcntl.fcntl(reader, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    writer = os.open(f"/proc/self/fd/{reader}", os.O_RDWR)  # root may; the seals hold for root too
    try:
        for attempt in (
            lambda: os.write(reader, b"x"),
            lambda: os.write(writer, b"x"),
            lambda: os.ftruncate(writer, 0),
            lambda: os.ftruncate(writer, 2 * SIZE),
            lambda: mmap.mmap(writer, SIZE),
        ):
            with pytest.raises(OSError, match="Errno"):
                attempt()
    finally:
        os.close(reader)
        os.close(writer)


def test_a_descriptor_or_a_mapping_elsewhere_is_seen(memory: SealedMemory) -> None:
    assert not memory.file.is_held()
    reader = memory.file.open_reader()
    assert memory.file.is_held()
    mapped = mmap.mmap(reader, SIZE, mmap.MAP_SHARED, mmap.PROT_READ)
    os.close(reader)
    assert memory.file.is_held()
    mapped.close()
    assert not memory.file.is_held()


def test_nothing_stays_open_after_the_close() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    memory = SealedMemory(SIZE)
    memory.close()
    memory.file.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
