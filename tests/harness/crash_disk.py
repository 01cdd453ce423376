"""A disk in memory that forgets: after a power cut it shows any state that its syncs allow.

    written, synced            there
    written, not synced        each sector there or not, in any combination, under any size up to the largest
    created, removed, renamed  there once the directory is synced; before that each or none, in any order

Sectors are of 512 bytes and atomic. A sector that was never written reads as zeros, or as `garbage`: what a file system
may show of another file. `fail_at` makes the n-th call fail, counted from 0.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from random import Random
from typing import Final

from forebay.core.buffers import Buffer
from forebay.storage.journal.journal_files import FileIdentity, JournalFiles

SECTOR: Final = 512


class PowerCut(BaseException):
    """The machine stops here."""


class _Inode:
    def __init__(self, content: bytes = b"") -> None:
        self.durable = bytes(content)
        self.content = bytearray(content)
        self.dirty: set[int] = set()
        self.locked_by: int | None = None
        self.whole: _Inode | None = None
        """As it was before it was truncated: which of both the disk has is open until the next sync."""


class CrashDisk(JournalFiles):
    """The disk. Directories are made with `make_directory`, durable at once."""

    def __init__(self) -> None:
        super().__init__()
        self.directories: dict[str, dict[str, _Inode]] = {}
        self.durable_names: dict[str, dict[str, _Inode]] = {}
        self.pending_names: dict[str, list[tuple[str, str, _Inode]]] = {}
        self.calls = 0
        self.fail_at: Callable[[int], OSError | None] = lambda _: None
        self.stop_at: int | None = None
        self._fds: dict[int, _Inode] = {}
        self._next_fd = 100

    def make_directory(self, path: str) -> None:
        self.directories[path], self.durable_names[path], self.pending_names[path] = {}, {}, []

    @property
    def descriptors(self) -> int:
        """The number of files that are open."""
        return len(self._fds)

    # JournalFiles

    def create(self, path: str) -> int:
        self._call()
        folder, name = os.path.split(path)
        if name in self.directories[folder]:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        inode = _Inode()
        self.directories[folder][name] = inode
        self.pending_names[folder].append(("create", name, inode))
        return self._descriptor(inode)

    def open(self, path: str, *, writable: bool = False) -> int:
        self._call()
        folder, name = os.path.split(path)
        inode = self.directories[folder].get(name)
        if inode is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._descriptor(inode)

    def write(self, fd: int, pieces: Sequence[Buffer | bytes], offset: int) -> None:
        content = b"".join(bytes(piece) for piece in pieces)
        inode = self._fds[fd]
        try:
            self._call()
        except OSError:
            self._store(inode, content[: len(content) // 2], offset)  # a short write, then the error
            raise
        self._store(inode, content, offset)

    def start_writeback(self, fd: int, offset: int, size: int) -> None:
        """Any byte may have reached the disk at any time, and any may be missing before a sync."""

    def sync(self, fd: int) -> None:
        inode = self._fds[fd]
        try:
            self._call()
        except OSError:
            # The kernel drops the pages, or keeps them and marks them clean: they stay in doubt for ever.
            inode.dirty = {sector for sector in inode.dirty if sector % 2}
            raise
        inode.durable, inode.dirty, inode.whole = bytes(inode.content), set(), None

    def truncate(self, fd: int, size: int) -> None:
        self._call()
        inode = self._fds[fd]
        if inode.whole is None:
            inode.whole = _Inode(inode.durable)
            inode.whole.content, inode.whole.dirty = bytearray(inode.content), set(inode.dirty)
        del inode.content[size:]
        inode.dirty = {sector for sector in inode.dirty if sector * SECTOR < size}

    def sync_directory(self, path: str) -> None:
        self._call()
        self.durable_names[path] = dict(self.directories[path])
        self.pending_names[path] = []

    def lock(self, fd: int) -> bool:
        inode = self._fds[fd]
        if inode.locked_by is None:
            inode.locked_by = fd
        return inode.locked_by == fd

    def read(self, fd: int, size: int, offset: int) -> bytes:
        self._call()
        return bytes(self._fds[fd].content[offset : offset + size])

    def read_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        content = self.read(fd, len(buffer), offset)
        buffer[: len(content)] = content
        return len(content)

    def identity(self, fd: int) -> FileIdentity:
        return 0, id(self._fds[fd])

    def has_name(self, identity: FileIdentity, path: str) -> bool:
        folder, name = os.path.split(path)
        inode = self.directories[folder].get(name)
        return inode is not None and identity == (0, id(inode))

    def size(self, fd: int) -> int:
        return len(self._fds[fd].content)

    def names(self, path: str) -> list[str]:
        self._call()
        return sorted(self.directories[path])

    def unlink(self, path: str) -> None:
        self._call()
        folder, name = os.path.split(path)
        inode = self.directories[folder].pop(name)
        self.pending_names[folder].append(("unlink", name, inode))

    def close(self, fd: int) -> None:
        inode = self._fds.pop(fd)
        if inode.locked_by == fd:
            inode.locked_by = None

    # Power cuts

    def after_power_cut(self, random: Random) -> "CrashDisk":
        """A state that the disk may be in after a power cut now."""

        def choose() -> bool:
            return random.random() < 0.5

        return self._cut(choose, random.randrange, random.randbytes if choose() else bytes)

    def every_power_cut(self, most: int) -> Iterator["CrashDisk"]:
        """Each state that the disk may be in after a power cut now; at most 2 ** `most` of them are made."""
        atoms = sum(len(each) for each in self.pending_names.values())
        inodes = {id(each): each for names in self._reachable().values() for each in names}
        atoms += sum(len((inode.whole or inode).dirty) + (inode.whole is not None) for inode in inodes.values())
        for choices in product((False, True), repeat=min(atoms, most)):
            yield self._cut(partial(next, iter(choices), True), lambda count: count - 1, bytes)

    def _reachable(self) -> dict[str, list[_Inode]]:
        return {
            folder: [*names.values(), *(inode for _, _, inode in self.pending_names[folder])]
            for folder, names in self.durable_names.items()
        }

    def _cut(
        self, choose: Callable[[], bool], pick: Callable[[int], int], garbage: Callable[[int], bytes]
    ) -> "CrashDisk":
        after = CrashDisk()
        survivors: dict[int, _Inode] = {}

        def survivor(inode: _Inode) -> _Inode:
            if id(inode) not in survivors:
                survivors[id(inode)] = _Inode(_torn(inode, choose, pick, garbage))
            return survivors[id(inode)]

        for folder, names in self.durable_names.items():
            left = dict(names)
            for action, name, inode in self.pending_names[folder]:
                if not choose():
                    continue
                if action == "create":
                    left[name] = inode
                elif left.get(name) is inode:
                    del left[name]
            after.directories[folder] = {name: survivor(inode) for name, inode in left.items()}
            after.durable_names[folder] = dict(after.directories[folder])
            after.pending_names[folder] = []
        return after

    def _call(self) -> None:
        number, self.calls = self.calls, self.calls + 1
        if number == self.stop_at:
            raise PowerCut
        error = self.fail_at(number)
        if error is not None:
            raise error

    def _descriptor(self, inode: _Inode) -> int:
        self._next_fd += 1
        self._fds[self._next_fd] = inode
        return self._next_fd

    def _store(self, inode: _Inode, content: bytes, offset: int) -> None:
        if not content:
            return
        if len(inode.content) < offset:
            inode.content.extend(bytes(offset - len(inode.content)))
        inode.content[offset : offset + len(content)] = content
        inode.dirty.update(range(offset // SECTOR, (offset + len(content) - 1) // SECTOR + 1))


def _torn(
    inode: _Inode, choose: Callable[[], bool], pick: Callable[[int], int], garbage: Callable[[int], bytes]
) -> bytes:
    if inode.whole is not None and choose():
        inode = inode.whole
    content = bytearray(inode.durable)
    for sector in sorted(inode.dirty):
        if not choose():
            continue
        start = sector * SECTOR
        written = inode.content[start : start + SECTOR]
        if len(content) < start:
            content.extend(garbage(start - len(content)))
        content[start : start + SECTOR] = written
    longest = max(len(content), len(inode.content))
    size = len(content) + pick(longest - len(content) + 1) if inode.dirty else len(content)
    return bytes(content) + garbage(size - len(content))
