"""Files whose descriptors came with a read: pieces of them are read for no longer than a read may take.

    a file system on a device of this machine (ext4, XFS, Btrfs)    read and closed at once
    any other (FUSE, NFS, overlayfs)                                in a thread, which is given up after the timeout

The process or the machine behind a file of FUSE or NFS may hang, and then each system call that reads or closes one
waits for it. preadv2(2) tells the two apart without a request to the file system: those that may wait do not know
RWF_NOWAIT. So nothing else is called before, fstat(2) neither.

A thread has its own buffer, so what it reads after it was given up goes nowhere. There are MAX_THREADS at most: beyond
that a read is refused, and a descriptor stays open.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from threading import Event, Thread
from typing import Final

from forebay.protocol.channel_frames import Piece

MAX_THREADS: Final = 64
_NOWAIT: Final = int(getattr(os, "RWF_NOWAIT", 0))
_threads: Final = set[Thread]()
"""Running threads, and those from before a fork."""

Read = Callable[[int, list[memoryview], int], int]
"""A read, with the arguments of os.preadv."""


class NotReadable(Exception):
    """A descriptor is not one of a plain file, or of one that is too short. The argument is the reason, in a word."""


def read_files(
    descriptors: Sequence[int], pieces: Sequence[Piece], body: memoryview, timeout: float, read: Read | None = None
) -> None:
    """Reads the pieces to `body`, which is as long as they are, and closes the descriptors. The `file` of a piece is
    its place among them. Raises NotReadable, OSError, MemoryError."""
    read = read or os.preadv
    if all(map(_is_local, descriptors)):
        try:
            _read_pieces(descriptors, pieces, body, read)
        finally:
            _close(descriptors)
        return
    done, results = Event(), list[bytearray | Exception]()

    def work() -> None:
        try:
            own = bytearray(len(body))
            _read_pieces(descriptors, pieces, memoryview(own), read)
            results.append(own)
        except (OSError, MemoryError, NotReadable) as error:
            results.append(error)
        done.set()

    if not _run(work, descriptors) or not done.wait(timeout):
        raise TimeoutError
    if isinstance(result := results[0], Exception):
        raise result
    body[:] = result


def close_files(descriptors: Iterable[int]) -> None:
    """Closes descriptors, without waiting for their file systems."""
    for descriptor in descriptors:
        if _is_local(descriptor):
            os.close(descriptor)
        else:
            _run(lambda: None, [descriptor])


def _run(work: Callable[[], None], descriptors: Sequence[int]) -> bool:
    """Runs `work` in a thread, which closes the descriptors behind it; False: there are too many threads."""
    if len(_threads) >= MAX_THREADS:
        _threads.difference_update([thread for thread in _threads if not thread.is_alive()])
        if len(_threads) >= MAX_THREADS:
            return False

    def run() -> None:
        work()
        _close(descriptors)
        _threads.discard(thread)

    thread = Thread(target=run, name="forebay-files", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # of the interpreter, which starts no more threads
        return False
    _threads.add(thread)
    return True


def _read_pieces(descriptors: Sequence[int], pieces: Sequence[Piece], body: memoryview, read: Read) -> None:
    if not all(stat.S_ISREG(os.fstat(each).st_mode) for each in descriptors):
        raise NotReadable("garbage")  # reading a device may have effects, or wait
    done = 0
    for piece in pieces:
        part, position = body[done : done + piece.length], piece.position
        done += piece.length
        while part:
            count = read(descriptors[piece.file], [part], position)
            if not count:
                raise NotReadable("truncated")
            part, position = part[count:], position + count


def _is_local(fd: int) -> bool:
    """Whether the file system of a descriptor is one of a device of this machine."""
    try:
        os.preadv(fd, [bytearray(1)], 0, _NOWAIT)
    except OSError as error:
        return error.errno != errno.EOPNOTSUPP
    return True


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
