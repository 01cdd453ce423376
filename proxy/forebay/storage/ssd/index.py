"""The index: where each block lies, and the heads. LMDB, read by every process, nothing to load at start.

    table      key                                 value
    heads      object address (16)                 head (head_codec.py)
    blocks     block address (28)                  segment, offset, length: 3 x 4 bytes, big-endian
    names      listing key (<= 417)                nothing; in the byte order of bucket and key
    segments   segment number (4)                  bytes in it (4), 0 while it is written
    meta       "next_segment"                      4 bytes

Here are the reads. They cost about a microsecond, see what was committed last by any process, and raise lmdb.Error if
the index is unwell. Writes are in index_updates.py and come from one thread per process.

A commit syncs the tables but not the page that makes them current (metasync=False): after a power cut the index is
whole, and as of one of the last commits. A row is never believed: the record it leads to must say that it is the block.

Before anything but the two first pages is touched, the file's size is compared with the number of its last page:
reading a mapped page that the file no longer has would kill the process. https://lmdb.readthedocs.io
"""

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

import lmdb

from forebay.storage.ssd.key_order import list_names

MIB: Final = 1024 * 1024
MIN_MAP: Final = 16 * 1024 * MIB  # address space, not memory; the file grows as it is filled
SMALL_MAP: Final = 1024 * MIB  # where address space is limited (ulimit -v)
MAX_READERS: Final = 512
TABLES: Final = ("heads", "blocks", "names", "segments", "meta")

ROW: Final = struct.Struct(">III")
_NUMBER = struct.Struct(">I")

# An error of these kinds says that the tables themselves are damaged, not that a disk is full or an operation refused.
DAMAGE: Final = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError, lmdb.InvalidError)


class IndexDamaged(Exception):
    """The index can't be opened. It is to be discarded."""


class BlockLocation(NamedTuple):
    """Where a record lies, and the length of its payload."""

    segment: int
    offset: int
    length: int

    def encode(self) -> bytes:
        return ROW.pack(*self)


class Tables(NamedTuple):
    """LMDB's handles of the tables; typed loosely, for the package has no types."""

    heads: Any
    blocks: Any
    names: Any
    segments: Any
    meta: Any


class Index:
    """The tables, for reading from any thread."""

    def __init__(self, env: Any, data: int) -> None:
        self.env = env
        self.tables = Tables(*(env.open_db(table.encode()) for table in TABLES))
        self._page: int = env.stat()["psize"]
        self._data = data

    @classmethod
    def open(cls, path: Path, capacity: int, *, exclusive: bool) -> Self:
        """Open the index in `path`, made if need be. IndexDamaged if that can't be done; it is then closed."""
        try:
            if exclusive:
                # Readers that died and a lock file that is damaged: nobody uses it but we, so it can be made anew.
                (path / "lock.mdb").unlink(missing_ok=True)
            env = _opened(path, capacity)
        except (lmdb.Error, OSError) as error:
            raise IndexDamaged(str(error)) from error
        data = -1
        try:
            data = os.open(path / "data.mdb", os.O_RDWR | os.O_CLOEXEC)
            if os.fstat(data).st_size < _needed(env):
                raise IndexDamaged("the file is shorter than its tables")
            return cls(env, data)
        except (lmdb.Error, OSError, IndexDamaged) as error:
            env.close()
            if data >= 0:
                os.close(data)
            raise IndexDamaged(str(error)) from error

    def close(self) -> None:
        self.env.close()
        os.close(self._data)

    def sync(self) -> None:
        """Everything that was committed is on the disk when this returns."""
        self.env.sync(True)

    def extend_file(self) -> None:
        """Give the file the length that its last page asks for.

        LMDB may count a last page that it never wrote; `open` would take the file for truncated. posix_fallocate only
        ever lengthens, so that other processes may grow the file meanwhile.
        """
        needed = _needed(self.env)
        if os.fstat(self._data).st_size < needed:
            os.posix_fallocate(self._data, needed - self._page, self._page)

    # Reads

    def head(self, address: bytes) -> bytes | None:
        with self.env.begin(self.tables.heads) as txn:
            return cast("bytes | None", txn.get(address))

    def location(self, block_address: bytes) -> BlockLocation | None:
        return decode_location(self.row(block_address))

    def row(self, block_address: bytes) -> bytes | None:
        """What `place` is read from."""
        with self.env.begin(self.tables.blocks) as txn:
            return cast("bytes | None", txn.get(block_address))

    def locations(self, block_addresses: list[bytes]) -> list[BlockLocation | None]:
        """`place` of each, as of one moment."""
        with self.env.begin(self.tables.blocks) as txn:
            return [decode_location(txn.get(address)) for address in block_addresses]

    def has_object(self, address: bytes) -> bool:
        """Whether there is a head or a block of the object."""
        with self.env.begin() as txn:
            return txn.get(address, db=self.tables.heads) is not None or _has_blocks(txn, self.tables, address)

    def without_blocks(self, addresses: list[bytes]) -> list[bytes]:
        """Those of the objects that have no blocks."""
        with self.env.begin() as txn:
            return [address for address in addresses if not _has_blocks(txn, self.tables, address)]

    def generation_bytes(self, object_and_generation: bytes) -> int:
        """Bytes of the blocks of one generation. Reads each of its rows: not for the event loop."""
        size = 0
        with self.env.begin() as txn, txn.cursor(self.tables.blocks) as cursor:
            found = cursor.set_range(object_and_generation)
            while found and cursor.key().startswith(object_and_generation):
                place = decode_location(cursor.value())
                size += place.length if place else 0
                found = cursor.next()
        return size

    def list_names(self, prefix: bytes, after: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Up to `limit` names in order, each as a cursor behind it and its head, of those whose listing keys start with
        `prefix`, from beyond the cursor `after` on. Fewer only at the end."""
        with self.env.begin() as txn, txn.cursor(self.tables.names) as cursor:
            return list_names(cursor, lambda at: txn.get(at, db=self.tables.heads) or b"", prefix, after, limit)

    def heads_after(self, address: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Up to `limit` heads with their addresses, from beyond `address` on, in the order of addresses."""
        with self.env.begin() as txn, txn.cursor(self.tables.heads) as cursor:
            found: list[tuple[bytes, bytes]] = []
            more = cursor.set_range(address)
            while more and len(found) < limit:
                if cursor.key() != address:
                    found.append(cursor.item())
                more = cursor.next()
            return found

    def segments(self) -> dict[int, int]:
        """Number -> bytes of each segment, 0 for one that was never finished."""
        with self.env.begin() as txn, txn.cursor(self.tables.segments) as cursor:
            return {_NUMBER.unpack(key)[0]: _NUMBER.unpack(value)[0] for key, value in cursor}

    def count(self) -> tuple[int, int]:
        """How many blocks and how many heads there are."""
        with self.env.begin() as txn:
            return txn.stat(self.tables.blocks)["entries"], txn.stat(self.tables.heads)["entries"]

    def size(self) -> int:
        """Bytes in use by the tables. The file keeps its free pages for later, so it may be larger."""
        with self.env.begin() as txn:
            return self._page * sum(_pages(txn.stat(table)) for table in self.tables)

    def heads_size(self) -> int:
        """Bytes in use by heads and their names."""
        with self.env.begin() as txn:
            return self._page * (_pages(txn.stat(self.tables.heads)) + _pages(txn.stat(self.tables.names)))

    @contextlib.contextmanager
    def write_transaction(self) -> Iterator[Any]:
        """A write transaction, committed at the end, undone when the body raises."""
        with self.env.begin(write=True) as txn:
            yield txn
        self.extend_file()


def decode_location(row: bytes | None) -> BlockLocation | None:
    return BlockLocation(*ROW.unpack(row)) if row is not None and len(row) == ROW.size else None


def _has_blocks(txn: Any, tables: Tables, address: bytes) -> bool:
    with txn.cursor(tables.blocks) as cursor:
        return bool(cursor.set_range(address)) and cursor.key().startswith(address)


def _pages(stat: dict[str, int]) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]


def _opened(path: Path, capacity: int) -> Any:
    sizes = (max(MIN_MAP, capacity), SMALL_MAP)
    for attempt, map_size in enumerate(sizes, 1):
        try:
            return lmdb.open(
                str(path),
                map_size=map_size,
                mode=0o600,
                max_dbs=len(TABLES),
                max_readers=MAX_READERS,
                max_spare_txns=16,
                metasync=False,
                readahead=False,
            )
        except lmdb.MemoryError:
            if attempt == len(sizes):
                raise
    raise AssertionError("unreachable")


def _needed(env: Any) -> int:
    return cast("int", (env.info()["last_pgno"] + 1) * env.stat()["psize"])
