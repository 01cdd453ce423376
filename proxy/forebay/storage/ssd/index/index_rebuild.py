"""The rebuild of a damaged index: its sound rows are copied into a new one, which replaces it. No block is discarded.

    old index ──> rows of every sound page ──> heads that verify, with their names ─┐
                                           ──> blocks that lie within a segment ────┼──> index.new ──> index
    segments/ ──> the files and their sizes ────────────────────────────────────────┘
    pages that are damaged ──> the ranges of block addresses between sound ones ──> segment_rescan.py, while serving

The old index is read without a memory map (lmdb_file.py), so no damage ends the process. A removal may be missing in
what is copied: the caller must not trust the heads until the origin has validated them. Blocks need no such caution:
their generation names their version, and their records are verified when they are read.

A rebuild that breaks off has changed nothing; one between the two renames leaves no index, and the next one begins with
the segments alone.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import lmdb

from forebay.core.errors import IndexDamaged
from forebay.storage.ssd.index.head_codec import decode_head
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.index.listing_keys import listing_key
from forebay.storage.ssd.index.lmdb_file import LmdbFile, Row
from forebay.storage.ssd.index.lmdb_layout import PageDamaged, PageRef, Tree
from forebay.storage.ssd.index.segment_rescan import ALL_ADDRESSES, AddressRange, RescanPlan
from forebay.storage.ssd.segments.addressing import BLOCK_ADDRESS, Addressing
from forebay.storage.ssd.segments.block_location import BlockLocation, decode_location
from forebay.storage.ssd.segments.record import ALIGNMENT, record_size
from forebay.storage.ssd.segments.segment_label import is_label
from forebay.storage.ssd.segments.segments import Segments
from forebay.storage.ssd.ssd_directory import SsdDirectory

LEAVES_AT_ONCE: Final = 500  # some 30,000 rows: one transaction


class RebuildCount(NamedTuple):
    """The rows of a rebuilt index, and whether segments are to be scanned for more."""

    heads: int
    blocks: int
    is_incomplete: bool


class _LostRanges:
    """The ranges of a table with missing rows: each from the last sound row before damaged pages, which is there, to
    the first one after them. The keys in the parents of these pages are not believed, as they may be damaged
    themselves."""

    def __init__(self) -> None:
        self.ranges: list[AddressRange] = []
        self.last = ALL_ADDRESSES.lower
        """The key of the last sound row so far."""
        self._is_open = False

    def begin(self) -> None:
        """Records that rows are missing after the last one."""
        self._is_open = True

    def end(self, first: bytes) -> None:
        """Records that no row is missing from the key `first` on."""
        if self._is_open:
            self.ranges.append(AddressRange(self.last, first))
            self._is_open = False


class _Salvage:
    """The rows of sound pages of an index."""

    def __init__(self, path: Path) -> None:
        self.lost: list[AddressRange] = []
        """The addresses of blocks between sound pages."""
        self._file: LmdbFile | None = None
        self._tables: dict[str, Tree] = {}
        with contextlib.suppress(PageDamaged, OSError):
            self._file = LmdbFile.open(path, is_salvage=True)
            self._file.prepare_reads(of_all=True)
            self._tables = self._file.tables()
        if self._file is None or self._file.damage is not None:
            self.lost.append(ALL_ADDRESSES)

    def rows(self, table: str) -> Iterator[list[Row]]:
        """Yields the rows of some leaves at a time, in the order of their keys."""
        lost = _LostRanges()
        tree = self._tables.get(table)
        if tree is None or self._file is None:
            lost.begin()
        else:
            yield from self._sound_rows(self._file, tree, lost)
        lost.end(ALL_ADDRESSES.upper)
        if table == "blocks":
            self.lost += lost.ranges

    def _sound_rows(self, file: LmdbFile, tree: Tree, lost: "_LostRanges") -> Iterator[list[Row]]:
        damaged: set[PageRef] = set()
        refs = file.leaves(tree, lambda ref, _: damaged.add(ref))
        if damaged:
            refs = sorted([*refs, *damaged], key=lambda ref: ref.lower or b"")
        for start in range(0, len(refs), LEAVES_AT_ONCE):
            rows: list[Row] = []
            for ref in refs[start : start + LEAVES_AT_ONCE]:
                found: list[Row] = []
                if ref not in damaged:
                    with contextlib.suppress(PageDamaged):
                        found = file.rows(tree, ref)
                if found:
                    lost.end(found[0][0])
                    lost.last = found[-1][0]
                else:
                    lost.begin()
                rows += found
            yield rows

    def close(self) -> None:
        """Closes the old index."""
        if self._file is not None:
            self._file.close()


def rebuild_index(directory: SsdDirectory, capacity: int, addressing: Addressing) -> RebuildCount:
    """Rebuilds the index of a directory that no other process has open. Reads all of the index: about two seconds for
    a million rows. Raises OSError or IndexDamaged if a new index can't be written."""
    fresh = directory.path / "index.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    segments = Segments(directory.segments)
    sizes = {number: segments.size(number) for number in segments.numbers()}
    salvage = _Salvage(directory.index)
    index = Index.open(fresh, capacity, exclusive=True)
    try:
        heads = sum(_copy_heads(index, rows, addressing) for rows in salvage.rows("heads"))
        blocks = sum(_copy_blocks(index, rows, sizes) for rows in salvage.rows("blocks"))
        first = max(sizes, default=-1) + 1
        with index.write_transaction() as txn:
            updates = IndexUpdates(txn, index.tables)
            updates.restore_segments(sizes, first)
            for rows in salvage.rows("meta"):
                updates.restore_labels((key, raw) for key, raw in rows if is_label(key))
            if salvage.lost and sizes:
                updates.put_rescan(RescanPlan.of(first, salvage.lost).encode())
        index.sync()
    except lmdb.Error as error:
        raise IndexDamaged(f"the rebuild: {error}") from error
    finally:
        index.close()
        salvage.close()
    directory.replace_index(fresh)
    return RebuildCount(heads, blocks, bool(salvage.lost and sizes))


def _copy_heads(index: Index, rows: list[Row], addressing: Addressing) -> int:
    heads: list[Row] = []
    names: list[Row] = []
    for address, raw in rows:
        named = decode_head(raw)
        if named is not None and addressing.object_address(named.name) == address:
            heads.append((address, raw))
            names.append((listing_key(named.name, address), b""))
    with index.write_transaction() as txn:
        with txn.cursor(index.tables.heads) as cursor:
            cursor.putmulti(heads, append=True)
        with txn.cursor(index.tables.names) as cursor:
            cursor.putmulti(sorted(names))
    return len(heads)


def _copy_blocks(index: Index, rows: list[Row], sizes: dict[int, int]) -> int:
    blocks = [
        (address, row)
        for address, row in rows
        if len(address) == BLOCK_ADDRESS and _is_within(decode_location(row), sizes)
    ]
    with index.write_transaction() as txn, txn.cursor(index.tables.blocks) as cursor:
        cursor.putmulti(blocks, append=True)
    return len(blocks)


def _is_within(location: BlockLocation | None, sizes: dict[int, int]) -> bool:
    """Returns whether there could be a record: it lies in a segment."""
    if location is None or location.offset % ALIGNMENT or location.length == 0:
        return False
    return location.offset + record_size(location.length) <= sizes.get(location.segment, 0)
