import gc
import os
import platform
import random
import socket
from collections import deque
from pathlib import Path

import pytest

from forebay.core.buffers import Buffer
from forebay.storage.memory.shared_blocks import HUGE, Arena, SharedBlock, copy_out

Ended = deque[tuple[int, bool]]


def block_of(buffer: Buffer | None) -> SharedBlock:
    assert buffer is not None
    assert isinstance(buffer.obj, SharedBlock)
    return buffer.obj


def test_a_shared_block_has_the_same_bytes_and_is_read_only() -> None:
    content = random.Random(1).randbytes(300_001)
    for huge in (0, HUGE):
        arena = Arena(2 * HUGE, huge, Ended())
        for offset in (0, 512 << 10, HUGE - 4096):
            buffer = arena.write(offset, memoryview(content))
            block = block_of(buffer)
            assert buffer is not None
            assert buffer == content
            assert buffer.readonly
            assert (block.arena, block.offset) == (arena, offset)
            assert os.pread(block.fd, len(content), offset) == content
            copy = copy_out(buffer[5:])
            assert copy == content[:-5]
            assert copy.readonly
            assert not isinstance(copy.obj, SharedBlock)


def test_an_arena_is_closed_when_its_last_block_is_dropped() -> None:
    ended = Ended()
    arena = Arena(2 * HUGE, HUGE, ended)
    arena.counted = 7
    one, other = (arena.write(offset, memoryview(b"x" * 1000)) for offset in (0, 4096))
    fd = block_of(one).fd
    assert one is not None
    part = one[10:20]
    del one, other, arena
    assert bytes(part) == b"x" * 10
    assert os.fstat(fd).st_size == HUGE
    assert not ended
    del part
    assert list(ended) == [(7, False)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_pages_handed_to_a_socket_outlive_the_file() -> None:
    """Later files get other pages as long as the client has not read these."""
    content = random.Random(2).randbytes(100_000)
    sending, reading = socket.socketpair()
    with sending, reading:
        sending.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        ended = Ended()
        arena = Arena(2 * HUGE, HUGE, ended)
        buffer = arena.write(4096, memoryview(content))
        assert os.sendfile(sending.fileno(), block_of(buffer).fd, 4096, len(content)) == len(content)
        del buffer, arena
        assert len(ended) == 1
        for _ in range(8):
            Arena(2 * HUGE, HUGE, ended).write(0, memoryview(bytes(HUGE)))
        assert reading.recv(len(content), socket.MSG_WAITALL) == content


def test_a_file_that_can_not_be_made_leaves_nothing_behind() -> None:
    """Nor is anything written to standard error: warnings of exceptions that can't be raised are errors here."""
    ended = Ended()
    gc.collect()  # the files of earlier tests
    files = set(Path("/proc/self/fd").iterdir())
    for capacity, huge in ((1 << 60, 0), (1 << 62, HUGE)):
        assert Arena(capacity, huge, ended).write(0, memoryview(b"x")) is None
    gc.collect()
    assert list(ended) == [(0, False)] * 2
    assert set(Path("/proc/self/fd").iterdir()) == files


def huge_pages() -> int:
    """Returns the KiB of memory files that this process has mapped as huge pages."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("ShmemPmdMapped"))


@pytest.mark.skipif(
    tuple(int(number) for number in platform.release().split(".")[:2]) < (6, 1)
    or platform.machine() != "x86_64"
    or not Path("/sys/kernel/mm/transparent_hugepage").exists(),
    reason="the kernel has no huge pages of 2 MiB, or does not make them when asked to: small ones do the same",
)
def test_a_common_arena_is_a_huge_page() -> None:
    before = huge_pages()
    arenas = [Arena(2 * HUGE, HUGE, Ended()) for _ in range(8)]
    buffers = [arena.write(0, memoryview(b"x")) for arena in arenas]
    assert huge_pages() >= before + HUGE // 1024  # at least one: not all where free memory is fragmented
    del buffers, arenas
    assert huge_pages() == before
