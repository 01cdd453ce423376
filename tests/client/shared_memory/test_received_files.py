"""Files whose descriptors came with a read, on file systems that answer and that hang.

The kernel's memory files stand for all of which it is not known whether a read would wait.
"""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.protocol.channel_frames import Piece
from forebay_client.shared_memory.received_files import MAX_THREADS, NotReadable, close_files, read_files
from harness.file_threads import join_file_threads

CONTENT = bytes(range(256)) * 64
PIECES = [Piece(0, 0, 100, 7), Piece(1, 0, 50, 0), Piece(0, 0, 10, len(CONTENT) - 10)]
EXPECTED = CONTENT[7:107] + CONTENT[:50] + CONTENT[-10:]
SIZE = len(EXPECTED)


def is_open(fd: int) -> bool:
    return Path(f"/proc/self/fd/{fd}").exists()


@pytest.fixture
def local(tmp_path: Path) -> Callable[[], int]:
    """Opens a file on a disk; skipped where tests have none."""
    path = tmp_path / "file"
    path.write_bytes(CONTENT)
    with path.open("rb") as file:
        try:
            os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT)
        except OSError as error:
            pytest.skip(f"the directory of the tests does not know RWF_NOWAIT: {error.strerror}")
    return lambda: os.open(path, os.O_RDONLY)


def remote() -> int:
    fd = os.memfd_create("remote")
    os.write(fd, CONTENT)
    return fd


class Hanging:
    """A file system that hangs until it is told to answer."""

    def __init__(self) -> None:
        self.answer = threading.Event()

    def __call__(self, fd: int, parts: list[memoryview], position: int) -> int:
        self.answer.wait()
        return os.preadv(fd, parts, position)


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.answer.set()
    join_file_threads()


def test_a_file_on_a_disk_is_read_by_the_reader(local: Callable[[], int]) -> None:
    readers, descriptors, body = set[str](), [local(), local()], bytearray(SIZE)

    def read(fd: int, parts: list[memoryview], position: int) -> int:
        readers.add(threading.current_thread().name)
        return os.preadv(fd, [parts[0][:8]], position)

    read_files(descriptors, PIECES, memoryview(body), 0.0, read)
    assert body == EXPECTED
    assert readers == {threading.current_thread().name}
    assert not any(map(is_open, descriptors))


def test_any_other_file_is_read_in_a_thread(local: Callable[[], int]) -> None:
    descriptors, body = [local(), remote()], bytearray(SIZE)
    read_files(descriptors, PIECES, memoryview(body), 60.0)
    assert body == EXPECTED
    join_file_threads()
    assert not any(map(is_open, descriptors))


def test_a_file_system_that_hangs_is_given_up(hanging: Hanging) -> None:
    descriptors, body = [remote(), remote()], bytearray(SIZE)
    with pytest.raises(TimeoutError):
        read_files(descriptors, PIECES, memoryview(body), 0.001, hanging)
    hanging.answer.set()
    join_file_threads()
    assert body == bytes(SIZE), "nothing is written behind the reader's back"
    assert not any(map(is_open, descriptors))


def test_many_that_hang_are_not_given_more_threads(hanging: Hanging) -> None:
    body = memoryview(bytearray(1))
    for _ in range(MAX_THREADS):
        with pytest.raises(TimeoutError):
            read_files([remote()], [Piece(0, 0, 1, 0)], body, 0.0, hanging)
    more = remote()
    with pytest.raises(TimeoutError):
        read_files([more], [Piece(0, 0, 1, 0)], body, 60.0)
    close_files([more])
    assert is_open(more)
    hanging.answer.set()
    join_file_threads()
    close_files([more])
    join_file_threads()
    assert not is_open(more)


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_a_file_that_is_too_short_is_none(local: Callable[[], int], kind: str) -> None:
    descriptor = local() if kind == "local" else remote()
    with pytest.raises(NotReadable, match="truncated"):
        read_files([descriptor], [Piece(0, 0, 2, len(CONTENT) - 1)], memoryview(bytearray(2)), 60.0)
    join_file_threads()
    assert not is_open(descriptor)


def test_what_hangs_when_it_is_closed_is_closed_in_a_thread(local: Callable[[], int]) -> None:
    here, elsewhere = local(), remote()
    close_files([here, elsewhere])
    assert not is_open(here)
    join_file_threads()
    assert not is_open(elsewhere)
