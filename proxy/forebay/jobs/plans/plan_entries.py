"""The entries of a plan, in files: only the entries near the reader take memory, of millions of keys.

    a directory     keys       the keys as UTF-8, each followed by a line feed
                    offsets    where each begins: u32, little-endian, one more than there are keys
                    ranges     first and last byte of each, two u64; absent where every entry is a whole object
                    indices    u32 into another directory's keys; such a plan has neither keys nor offsets of its own
                    plan.json  the plan's other fields (jobs.plans.plan_store)

All files are written once and never changed. They are read in windows, by pread, in a thread; the bytes of a window
are in the page cache, or take one read of the disk. If the sizes of its files contradict each other, the plan is lost.
"""

import os
from array import array
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

WHOLE: Final = (1 << 64) - 1
"""The last byte of an entry that is a whole object."""
_FIRST_SEARCH_SIZE: Final = 16 << 10
"""Bytes that a search reads first: keys of short epochs come again soon. Each piece is four times as long."""
_SEARCH_SIZE: Final = 1 << 20
_KNOWN_NUMBERS: Final = 64
_SHORT_SIZE: Final = 1 << 20
"""Bytes of keys that are read whole to pick some, in a tenth of a millisecond."""


class PlanEntry(NamedTuple):
    """One read that is going to be made."""

    key: str
    start: int = 0
    stop: int | None = None
    """None: to the end of the object."""


class OrderedEntries(Protocol):
    """The entries of a plan in order. Methods block, and raise OSError and ValueError."""

    count: int

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        """The entries from `start` up to `stop`, clipped."""
        ...

    def find(self, key: str, after: int = 0) -> int | None:
        """The position of the first entry of `key` from `after` on; None: there is none."""
        ...

    def close(self) -> None:
        """Ends the access to entries."""
        ...


class KeyTable:
    """Keys by number. Raises OSError, and ValueError for files that do not fit one another."""

    def __init__(self, directory: Path) -> None:
        with ExitStack() as opened:
            self._keys = _open(directory / "keys", opened)
            self._offsets = _open(directory / "offsets", opened)
            self.count = os.fstat(self._offsets).st_size // 4 - 1
            self._size = os.fstat(self._keys).st_size
            if self.count < 0 or self._offset(self.count) != self._size:
                raise ValueError("the keys are damaged")
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Closes the files."""
        self._opened.close()

    def _offset(self, number: int) -> int:
        return int.from_bytes(os.pread(self._offsets, 4, 4 * number), "little")

    def run(self, start: int, stop: int) -> list[str]:
        """The keys from `start` up to `stop`."""
        offsets = array("I", os.pread(self._offsets, 4 * (stop - start + 1), 4 * start))
        content = os.pread(self._keys, offsets[-1] - offsets[0], offsets[0])
        return content.decode().split("\n")[:-1]

    def pick(self, numbers: Sequence[int]) -> list[str]:
        """The keys of these numbers. A short table is read whole, by two system calls in place of two for each key: a
        thread gives up the interpreter, and takes it from the loop again, at each."""
        if self._size <= _SHORT_SIZE:
            offsets = array("I", os.pread(self._offsets, 4 * (self.count + 1), 0))
            content = os.pread(self._keys, self._size, 0)
            return [content[offsets[number] : offsets[number + 1] - 1].decode() for number in numbers]
        found = []
        for number in numbers:
            start, stop = array("I", os.pread(self._offsets, 8, 4 * number))
            found.append(os.pread(self._keys, stop - start - 1, start).decode())
        return found

    def find(self, key: str, after: int = 0) -> int | None:
        """The first number of a key from `after` on; None: it is not there. Reads everything up to it."""
        wanted, before = b"\n" + key.encode() + b"\n", b"\n"
        position = self._offset(after) if after < self.count else self._size
        size = _FIRST_SEARCH_SIZE
        while position < self._size:
            piece = os.pread(self._keys, size, position)
            size = min(4 * size, _SEARCH_SIZE)
            content = before + piece
            found = content.find(wanted)
            if found >= 0:
                return self._number_at(position - len(before) + found + 1)
            before = content[-len(wanted) :]
            position += len(piece)
        return None

    def _number_at(self, offset: int) -> int:
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._offset(middle) < offset:
                low = middle + 1
            else:
                high = middle
        return low


class PlanEntries:
    """The entries of one plan, in order. Raises OSError, and ValueError for files that do not fit one another."""

    def __init__(self, directory: Path, keys: Path | None = None) -> None:
        """`keys`: the directory of the keys that the indices are of; None: the plan's own."""
        self._numbers: dict[str, int | None] = {}
        """The positions, in the list of keys, of the keys that were looked for; None: the list has no such key."""
        with ExitStack() as opened:
            self._table = KeyTable(keys or directory)
            opened.callback(self._table.close)
            self._indices = _open(directory / "indices", opened) if keys is not None else None
            self.count = self._table.count if self._indices is None else os.fstat(self._indices).st_size // 4
            self._ranges: int | None = None
            with suppress(FileNotFoundError):
                self._ranges = _open(directory / "ranges", opened)
                if os.fstat(self._ranges).st_size != 16 * self.count:
                    raise ValueError("the ranges are damaged")
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Closes the files."""
        self._opened.close()

    def read(self, start: int, stop: int) -> list[PlanEntry]:
        """The entries from `start` up to `stop`, clipped."""
        stop = min(stop, self.count)
        if start >= stop:
            return []
        if self._indices is not None:
            keys = self._table.pick(array("I", os.pread(self._indices, 4 * (stop - start), 4 * start)))
        else:
            keys = self._table.run(start, stop)
        if self._ranges is None:
            return [PlanEntry(key) for key in keys]
        bounds = array("Q", os.pread(self._ranges, 16 * (stop - start), 16 * start))
        return [
            PlanEntry(key, bounds[2 * nth], None if bounds[2 * nth + 1] == WHOLE else bounds[2 * nth + 1] + 1)
            for nth, key in enumerate(keys)
        ]

    def find(self, key: str, after: int = 0) -> int | None:
        """The position of the first entry of `key` from `after` on; None: there is none. Reads much of the plan."""
        if self._indices is None:
            return self._table.find(key, after)
        number = self._numbers.get(key, -1)
        if number is None or number < 0:
            if len(self._numbers) >= _KNOWN_NUMBERS:
                self._numbers.clear()
            number = self._numbers[key] = self._table.find(key)
        if number is None:
            return None
        wanted = number.to_bytes(4, "little")
        position, size = 4 * after, _FIRST_SEARCH_SIZE
        while content := os.pread(self._indices, size, position):
            size = min(4 * size, _SEARCH_SIZE)
            found = content.find(wanted)
            while found >= 0:
                if found % 4 == 0:
                    return (position + found) // 4
                found = content.find(wanted, found + 1)
            position += len(content)
        return None


def _open(file: Path, opened: ExitStack) -> int:
    """Opens a file, which `opened` closes."""
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    opened.callback(os.close, fd)
    return fd
