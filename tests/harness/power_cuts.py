"""Power cuts of a program on real files: what a directory may have in it if the machine stops at one of its calls.

    cuts = PowerCuts(directory, lambda: promised)
    with cuts.recorded():
        ...                                      the program, which changes what is promised as it goes along
    for left, promise in cuts.states(tmp_path / "left", Random(1)):
        assert found_in(left) in promise

The tree is looked at after each call that changes files (harness.file_calls), so the difference is what that call did.

    written, synced            there
    written, not synced        each sector as it was after any of the writes since the last sync, or never written
    created, removed, renamed  there once the directory is synced; before that each call or none of it, in any order

Sectors are of 512 bytes and atomic, and so is a call that changes names. A sector that was never written reads as
zeros, or as another file's bytes. Calls of one thread at a time are told apart.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from harness.crash_disk import SECTOR
from harness.file_calls import FileCalls

T = TypeVar("T")
_SYNCS: Final = ("fsync", "fdatasync")
_RANDOM_STATES: Final = 3
"""Of each moment and share of changes, beside the extreme ones."""
_MOST_CHANGES: Final = 4
"""Changes of names of which every combination is tried."""


class _Renamed(NamedTuple):
    """What a call does to one name."""

    directory: int
    name: str
    before: int | None
    behind: int | None


@dataclass
class _Disk:
    """What is durable, and what may be. Nodes have numbers of their own, as inodes are used again."""

    names: dict[int, dict[str, int]] = field(default_factory=dict)
    changes: list[list[_Renamed]] = field(default_factory=list)
    contents: dict[int, tuple[bytes, ...]] = field(default_factory=dict)
    """Of files: when they were synced, and after each write since."""

    def copy(self) -> "_Disk":
        names = {directory: dict(entries) for directory, entries in self.names.items()}
        return _Disk(names, list(self.changes), dict(self.contents))

    def apply(self, change: list[_Renamed]) -> None:
        for each in change:
            entries = self.names.setdefault(each.directory, {})
            if each.behind is not None:
                entries[each.name] = each.behind
            elif entries.get(each.name) == each.before:
                del entries[each.name]

    def sync(self, node: int) -> None:
        if node in self.contents:
            self.contents[node] = self.contents[node][-1:]
            return
        for change in [each for each in self.changes if any(node == renamed.directory for renamed in each)]:
            self.changes.remove(change)
            self.apply(change)


_ROOT: Final = 0


class PowerCuts(Generic[T]):
    """See the module. `promise`: returns what holds if the machine stops now; it is not changed afterwards."""

    def __init__(self, directory: Path, promise: Callable[[], T]) -> None:
        self._directory = directory
        self._promise = promise
        self._disk = _Disk()
        self._nodes: dict[int, int] = {}
        """The nodes by inode, of what is there now."""
        self._tree: dict[tuple[int, str], int] = {}
        self._next = _ROOT
        self._is_looking = False
        self._moments: list[tuple[_Disk, T]] = []

    @property
    def moments(self) -> int:
        """At so many moments the machine may have stopped."""
        return len(self._moments)

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Records the calls of this thread, and of those that begin meanwhile. What is there counts as durable."""
        self._look()
        for change in self._disk.changes:
            self._disk.apply(change)
        self._disk.changes.clear()
        self._disk.contents = {node: versions[-1:] for node, versions in self._disk.contents.items()}
        before = {name: getattr(os, name) for name in _SYNCS}
        for name in _SYNCS:
            setattr(os, name, self._synced(before[name]))
        try:
            with FileCalls(lambda _: self._stop()).watched():
                yield
        finally:
            for name in _SYNCS:
                setattr(os, name, before[name])
        self._stop()

    def states(self, into: Path, random: Random, most: int) -> Iterator[tuple[Path, T]]:
        """At most so many states that the directory may be in after a power cut at any moment, each in its place for as
        long as it is looked at, and what was promised then. In half of them everything that was written is there."""
        written, others = dict[str, _State[T]](), dict[str, _State[T]]()
        for disk, promise in self._moments:
            for nth, (names, choose) in enumerate(_choices(disk, random)):
                left = disk.copy()
                for change in names:
                    left.apply(change)
                contents = {node: choose(versions) for node, versions in disk.contents.items()}
                found = written if not nth else others
                found.setdefault(repr((_reached(left, contents, _ROOT), promise)), (left, contents, promise))
        for kind in (written, others):
            for left, contents, promise in random.sample(list(kind.values()), min(len(kind), most // 2)):
                shutil.rmtree(into, ignore_errors=True)
                _write(left, contents, _ROOT, into)
                yield into, promise

    def _synced(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def call(fd: int) -> None:
            sync(fd)
            self._is_looking = True  # its own calls are not the program's
            self._look()
            self._is_looking = False
            node = self._nodes.get(os.fstat(fd).st_ino)
            if node is not None:
                self._disk.sync(node)

        return call

    def _stop(self) -> None:
        if self._is_looking:
            return
        self._look()
        self._moments.append((self._disk.copy(), self._promise()))

    def _look(self) -> None:
        """Finds out what has changed since the last look."""
        nodes, self._nodes = self._nodes, {}
        tree: dict[tuple[int, str], int] = {}
        self._walk(self._directory, self._node(self._directory.stat().st_ino, nodes), nodes, tree)
        change = [
            _Renamed(*place, self._tree.get(place), tree.get(place))
            for place in dict.fromkeys([*self._tree, *tree])
            if self._tree.get(place) != tree.get(place)
        ]
        self._tree = tree
        if change:
            self._disk.changes.append(change)

    def _walk(self, directory: Path, node: int, nodes: dict[int, int], tree: dict[tuple[int, str], int]) -> None:
        for entry in os.scandir(directory):
            found = tree[node, entry.name] = self._node(entry.inode(), nodes)
            if entry.is_dir():
                self._walk(directory / entry.name, found, nodes, tree)
            else:
                content = (directory / entry.name).read_bytes()
                versions = self._disk.contents.get(found, (b"",))
                if content != versions[-1]:
                    versions = (*versions, content)
                self._disk.contents[found] = versions

    def _node(self, inode: int, nodes: dict[int, int]) -> int:
        node = nodes.get(inode)
        if node is None:
            node, self._next = self._next, self._next + 1
        self._nodes[inode] = node
        return node


_State: TypeAlias = tuple[_Disk, dict[int, bytes], T]
Choice: TypeAlias = Callable[[tuple[bytes, ...]], bytes]
"""Which content a file has, of its versions."""


def _choices(disk: _Disk, random: Random) -> Iterator[tuple[list[list[_Renamed]], Choice]]:
    """Which changes of names a cut leaves, and which contents: first all."""

    def torn(versions: tuple[bytes, ...]) -> bytes:
        return _torn(versions, random)

    count = len(disk.changes)
    if count <= _MOST_CHANGES:
        subsets = list(product((False, True), repeat=count))
        combined = list(product(subsets, (_first, _last, _unwritten, torn)))
    else:
        combined = list(product(((False,) * count, (True,) * count), (_first, _last, _unwritten, torn)))
        for share in (0.7, 0.98) * _RANDOM_STATES:
            combined.append((tuple(random.random() < share for _ in range(count)), random.choice((_last, torn))))
    for subset, choose in [((True,) * count, _last), *combined]:
        yield [change for change, is_left in zip(disk.changes, subset, strict=True) if is_left], choose


def _first(versions: tuple[bytes, ...]) -> bytes:
    return versions[0]


def _last(versions: tuple[bytes, ...]) -> bytes:
    return versions[-1]


def _unwritten(versions: tuple[bytes, ...]) -> bytes:
    """The size is there, the bytes are not."""
    return versions[0].ljust(len(versions[-1]), b"\0")[: len(versions[-1])]


def _torn(versions: tuple[bytes, ...], random: Random) -> bytes:
    if len(versions) == 1:
        return versions[0]
    size = len(random.choice(versions))
    content = bytearray()
    for start in range(0, size, SECTOR):
        unwritten = [None] if start >= len(versions[0]) else []
        found = random.choice([*versions, *unwritten])
        sector = random.randbytes(SECTOR) if found is None and random.random() < 0.5 else (found or b"")[start:]
        content += sector[:SECTOR].ljust(SECTOR, b"\0")
    return bytes(content[:size])


def _reached(disk: _Disk, contents: dict[int, bytes], node: int) -> object:
    """What is found by its names."""
    if node in contents:
        return contents[node]
    return {name: _reached(disk, contents, each) for name, each in disk.names.get(node, {}).items()}


def _write(disk: _Disk, contents: dict[int, bytes], node: int, path: Path) -> None:
    path.mkdir()
    for name, found in disk.names.get(node, {}).items():
        if found in contents:
            (path / name).write_bytes(contents[found])
        else:
            _write(disk, contents, found, path / name)
