"""Sealed memory: nobody can change it or its size, and the kernel says who has it."""

import fcntl
import mmap
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.server.shared_memory.sealed_memory import SealedMemory, WatchedFile

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


OPENS_AGAIN = """
import os, sys
while True:
    os.close(os.open(sys.argv[1], os.O_RDONLY))
"""


def test_who_opens_the_file_within_a_lease_ends_no_process(memory: SealedMemory) -> None:
    """The kernel tells of it by a signal: SIGIO, which kills, unless another is set for each lease."""
    told = Counter[int]()
    numbers = (signal.SIGIO, signal.SIGURG)
    before = [signal.signal(number, lambda number, _frame: told.update([number])) for number in numbers]
    path = f"/proc/{os.getpid()}/fd/{memory.file._watch}"  # noqa: SLF001 # as lsof(8) finds it
    command = (sys.executable, "-c", OPENS_AGAIN, path)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as opening:
        while told.total() < 3:
            assert opening.poll() is None
            memory.file.is_held()
        opening.kill()
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    assert set(told) == {signal.SIGURG}
    assert before[1] == signal.SIG_DFL, "which is ignored"


def test_only_the_owner_can_open_the_file(memory: SealedMemory) -> None:
    reader = memory.file.open_reader()
    assert stat.S_IMODE(os.fstat(reader).st_mode) == 0o400
    os.close(reader)


def test_a_file_of_which_the_kernel_does_not_tell_is_not_shared() -> None:
    """As one that is open twice here seems to be."""
    fd = os.memfd_create("arena", os.MFD_ALLOW_SEALING)
    before = len(list(Path("/proc/self/fd").iterdir()))
    reader = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    with pytest.raises(OSError, match="does not say"):
        WatchedFile(fd)
    os.close(reader)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    os.close(fd)
