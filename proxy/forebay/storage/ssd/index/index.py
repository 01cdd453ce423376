"""The index: where each block is, and the heads. LMDB, read by every process, nothing to load at start.

    table      key                                 value
    heads      object address (16)                 head (head_codec.py)
    blocks     block address (28)                  segment, offset, length: 3 x 4 bytes (block_location.py)
    names      listing key (<= 417)                nothing; in the byte order of bucket and key
    segments   segment number (4)                  bytes in it (4), 0 while it is written
    meta       "next_segment"                      4 bytes
               "rescan"                            the plan of a rescan (segment_rescan.py), while there is one
               "segment..." and "pool..."          labels of segments (segment_label.py)

This module has the reads. They cost about a microsecond, see the latest commit of any process, and raise one of
INDEX_ERRORS if the index fails. Writes are in index_updates.py and come from one thread per process.

A commit syncs the tables but not the page that makes them current (metasync=False): after a power cut the index is
whole, and as of one of the last commits. A row is only a hint: the record it leads to must verify as the block.

Before anything but the two first pages is read, the file's size is compared with the number of its last page: reading
a mapped page that the file no longer has would kill the process (SIGBUS). https://lmdb.readthedocs.io
"""

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, cast

import lmdb

from forebay.core.errors import IndexDamaged
from forebay.storage.ssd.index.listing_keys import ListingRow, list_names
from forebay.storage.ssd.segments.block_location import BlockLocation, decode_location
from forebay.storage.ssd.segments.segment_label import LabelledSegment, PoolRow, read_labels, read_pools

MIB: Final = 1024 * 1024
MIN_MAP: Final = 16 * 1024 * MIB  # address space, not memory; the file grows as it is filled
SMALL_MAP: Final = 1024 * MIB  # where address space is limited (ulimit -v)
MAX_READERS: Final = 512
TABLES: Final = ("heads", "blocks", "names", "segments", "meta")

_NUMBER = struct.Struct(">I")

RESCAN: Final = b"rescan"
MAX_NUMBER: Final = 2**31  # of a segment; 64 MiB each, that is more than any disk has

# These errors say that the tables themselves are damaged, not that a disk is full or an operation refused. A damaged
# page can claim a depth that no cursor has, a value larger than memory, or a table of another kind.
DAMAGE: Final = (
    IndexDamaged,
    MemoryError,
    lmdb.CorruptedError,
    lmdb.CursorFullError,
    lmdb.IncompatibleError,
    lmdb.InvalidError,
    lmdb.PageFullError,
    lmdb.PageNotFoundError,
    lmdb.PanicError,
)
INDEX_ERRORS: Final = (lmdb.Error, IndexDamaged, MemoryError)
"""The errors of reads."""


class Tables(NamedTuple):
    """LMDB's handles of the tables; typed loosely, for the package has no types."""

    heads: Any
    blocks: Any
    names: Any
    segments: Any
    meta: Any


class Index:
    """The tables, for reading from any thread. Made by `open`, ended by `close`."""

    def __init__(self, env: Any, path: Path, data: int) -> None:
        self.env = env
        self.path = path
        self.tables = Tables(*(env.open_db(table.encode()) for table in TABLES))
        self._page: int = env.stat()["psize"]
        self._data = data

    @classmethod
    def open(cls, path: Path, capacity: int, *, exclusive: bool) -> Self:
        """Opens the index in `path`, created if need be. Raises IndexDamaged.

        `exclusive`: no other process has it open.
        """
        try:
            if exclusive:
                # Readers that died, or a damaged lock file: nobody else uses it, so it is made anew.
                (path / "lock.mdb").unlink(missing_ok=True)
            env = _open_environment(path, capacity)
        except (*INDEX_ERRORS, OSError) as error:
            raise IndexDamaged(str(error)) from error
        data = -1
        try:
            data = os.open(path / "data.mdb", os.O_RDWR | os.O_CLOEXEC)
            if os.fstat(data).st_size < _needed_size(env):
                raise IndexDamaged("the file is shorter than its tables")
            return cls(env, path, data)
        except (*INDEX_ERRORS, OSError) as error:
            env.close()
            if data >= 0:
                os.close(data)
            raise IndexDamaged(str(error)) from error

    def close(self) -> None:
        """Closes the index."""
        self.env.close()
        os.close(self._data)

    def sync(self) -> None:
        """Waits until everything that was committed is on the disk."""
        self.env.sync(True)

    def extend_file(self) -> None:
        """Gives the file the length that its last page needs.

        LMDB may count a last page that it never wrote; `open` would take the file for truncated. posix_fallocate only
        ever lengthens, so that other processes may grow the file meanwhile.
        """
        needed = _needed_size(self.env)
        if os.fstat(self._data).st_size < needed:
            os.posix_fallocate(self._data, needed - self._page, self._page)

    # Reads

    def head(self, address: bytes) -> bytes | None:
        """Returns the encoded head of an object."""
        with self.env.begin(self.tables.heads) as txn:
            found: bytes | None = txn.get(address)
            return found

    def location(self, block_address: bytes) -> BlockLocation | None:
        """Returns where a block is."""
        return decode_location(self.row(block_address))

    def row(self, block_address: bytes) -> bytes | None:
        """Returns the encoded location of a block."""
        with self.env.begin(self.tables.blocks) as txn:
            return cast("bytes | None", txn.get(block_address))

    def locations(self, block_addresses: list[bytes]) -> list[BlockLocation | None]:
        """Returns the location of each block, as of one moment."""
        with self.env.begin(self.tables.blocks) as txn:
            rows = [txn.get(address) for address in block_addresses]
        return [None if row is None else decode_location(row) for row in rows]

    def has_object(self, address: bytes) -> bool:
        """Returns whether there is a head or a block of the object."""
        with self.env.begin() as txn:
            return txn.get(address, db=self.tables.heads) is not None or has_blocks(txn, self.tables, address)

    def without_blocks(self, addresses: list[bytes]) -> list[bytes]:
        """Returns those of the objects that have no blocks."""
        with self.env.begin() as txn:
            return [address for address in addresses if not has_blocks(txn, self.tables, address)]

    def generation_bytes(self, object_and_generation: bytes) -> int:
        """Returns the bytes of the blocks of one generation. Reads each of its rows: not for the event loop."""
        size = 0
        with self.env.begin() as txn, txn.cursor(self.tables.blocks) as cursor:
            found = cursor.set_range(object_and_generation)
            while found and cursor.key().startswith(object_and_generation):
                location = decode_location(cursor.value())
                size += location.length if location else 0
                found = cursor.next()
        return size

    def blocks_from(self, prefix: bytes, start: bytes, limit: int) -> list[tuple[bytes, BlockLocation]]:
        """Returns up to `limit` blocks whose addresses start with `prefix`, from the address `start` on, with their
        locations."""
        blocks: list[tuple[bytes, BlockLocation]] = []
        with self.env.begin() as txn, txn.cursor(self.tables.blocks) as cursor:
            found = cursor.set_range(start)
            while found and len(blocks) < limit and cursor.key().startswith(prefix):
                if (location := decode_location(cursor.value())) is not None:
                    blocks.append((cursor.key(), location))
                found = cursor.next()
        return blocks

    def heads_at(self, addresses: Iterable[bytes]) -> dict[bytes, bytes]:
        """Returns the encoded heads of those objects that have one, by address."""
        with self.env.begin(self.tables.heads) as txn:
            found = ((address, txn.get(address)) for address in addresses)
            return {address: raw for address, raw in found if raw is not None}

    def list_names(self, prefix: bytes, after: bytes, limit: int) -> list[ListingRow]:
        """Returns up to `limit` names in order whose listing keys start with `prefix`, beyond the cursor `after`. Fewer
        only at the end."""
        with self.env.begin() as txn, txn.cursor(self.tables.names) as cursor:
            return list_names(cursor, lambda at: txn.get(at, db=self.tables.heads) or b"", prefix, after, limit)

    def heads_after(self, address: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        """Returns up to `limit` addresses with their heads, beyond `address`, in the order of addresses."""
        with self.env.begin() as txn, txn.cursor(self.tables.heads) as cursor:
            found: list[tuple[bytes, bytes]] = []
            more = cursor.set_range(address)
            while more and len(found) < limit:
                if cursor.key() != address:
                    found.append(cursor.item())
                more = cursor.next()
            return found

    def segments(self) -> dict[int, int]:
        """Returns the bytes of each segment by its number, 0 for one that was never finished."""
        with self.env.begin() as txn, txn.cursor(self.tables.segments) as cursor:
            return {decode_number(key): decode_number(value, 2**32) for key, value in cursor}

    def labels(self) -> dict[int, LabelledSegment]:
        """Returns the labels of the segments that have one."""
        with self.env.begin() as txn, txn.cursor(self.tables.meta) as cursor:
            return dict(read_labels(cursor))

    def pools(self) -> dict[bytes, PoolRow]:
        """Returns the pools that have or had segments, by their ids."""
        with self.env.begin() as txn, txn.cursor(self.tables.meta) as cursor:
            return dict(read_pools(cursor))

    def rescan_plan(self) -> bytes | None:
        """Returns the plan of a rescan."""
        with self.env.begin(self.tables.meta) as txn:
            return cast("bytes | None", txn.get(RESCAN))

    def count(self) -> tuple[int, int]:
        """Returns the numbers of blocks and of heads."""
        with self.env.begin() as txn:
            return txn.stat(self.tables.blocks)["entries"], txn.stat(self.tables.heads)["entries"]

    def size(self) -> int:
        """Returns the bytes in use by the tables. The file keeps its free pages for later, so it may be larger."""
        with self.env.begin() as txn:
            return self._page * sum(_pages(txn.stat(table)) for table in self.tables)

    def heads_size(self) -> int:
        """Returns the bytes in use by heads and their names."""
        with self.env.begin() as txn:
            return self._page * (_pages(txn.stat(self.tables.heads)) + _pages(txn.stat(self.tables.names)))

    @contextlib.contextmanager
    def write_transaction(self) -> Iterator[Any]:
        """Yields a write transaction, committed at the end, undone when the body raises."""
        with self.env.begin(write=True) as txn:
            yield txn
        self.extend_file()


def decode_number(raw: bytes, limit: int = MAX_NUMBER) -> int:
    """Decodes the number of a segment, or its size. Raises IndexDamaged."""
    if len(raw) != _NUMBER.size or (number := int.from_bytes(raw, "big")) >= limit:
        raise IndexDamaged("a number of a segment is none")
    return number


def has_blocks(txn: Any, tables: Tables, address: bytes) -> bool:
    """Returns whether an object has blocks."""
    with txn.cursor(tables.blocks) as cursor:
        return bool(cursor.set_range(address)) and cursor.key().startswith(address)


def _pages(stat: dict[str, int]) -> int:
    return stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]


def _open_environment(path: Path, capacity: int) -> Any:
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


def _needed_size(env: Any) -> int:
    return cast("int", (env.info()["last_pgno"] + 1) * env.stat()["psize"])
