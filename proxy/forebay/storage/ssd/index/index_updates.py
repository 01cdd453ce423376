"""Writes to the index, all from the writer's thread.

`IndexUpdates` are single steps in one write transaction (Index.write_transaction). A transaction that was undone may be
done again: no step depends on having been done once. `OrderCommit` carries the write queue's orders out with them.
"""

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from forebay.core.heads import Head, NamedHead
from forebay.core.names import Generation, ObjectName
from forebay.storage.ssd.index.head_codec import decode_head, encode_head
from forebay.storage.ssd.index.index import RESCAN, Index, Tables, decode_number, has_blocks
from forebay.storage.ssd.index.listing_keys import listing_key, listing_prefix
from forebay.storage.ssd.segments.addressing import GENERATION, OBJECT_ADDRESS, Addressing
from forebay.storage.ssd.segments.block_location import BlockLocation, decode_location
from forebay.storage.ssd.segments.record import record_size
from forebay.storage.ssd.segments.segment_label import (
    PLAIN,
    LabelledSegment,
    PoolRow,
    SegmentLabel,
    decode_segment,
    encode_pool,
    encode_segment,
    pool_key,
    segment_key,
)
from forebay.storage.ssd.write_queue import (
    AdmitBlock,
    DropBlock,
    DropHead,
    FlushQueue,
    ForgetObject,
    PurgePrefix,
    PutHead,
    Removal,
    WriteOrder,
)

SAME_HEAD_SECONDS: Final = 1.0
"""A head that differs from the stored one only in that it was validated less than this later is not written."""
FEW_ROWS: Final = 1_000  # of one object are removed together with the rest of a batch
ROWS_AT_ONCE: Final = 10_000  # otherwise in transactions of their own: some 10 ms each
NAMES_AT_ONCE: Final = 1_000

_NUMBER = struct.Struct(">I")
_NEXT_SEGMENT: Final = b"next_segment"


class IndexUpdates:
    """The steps of one write transaction."""

    def __init__(self, txn: Any, tables: Tables) -> None:
        self._txn = txn
        self._tables = tables
        self.dead: Counter[int] = Counter()
        """Bytes of removed blocks, by the segment that still has them. Recorded by `record_dead`."""

    # Blocks

    def put_block(self, address: bytes, location: BlockLocation) -> None:
        """Records where a block is."""
        self._txn.put(address, location.encode(), db=self._tables.blocks)

    def restore_block(self, address: bytes, location: BlockLocation) -> None:
        """Records where a block is, if it has no row, and its segment is there still."""
        if self._txn.get(_NUMBER.pack(location.segment), db=self._tables.segments) is not None:
            self._txn.put(address, location.encode(), db=self._tables.blocks, overwrite=False)

    def move_block(self, address: bytes, old: BlockLocation, new: BlockLocation | None) -> bool:
        """Points a block from `old` to `new`, or removes it. Returns False if it did not point to `old`."""
        if decode_location(self._txn.get(address, db=self._tables.blocks)) != old:
            return False
        if new is None:
            self._txn.delete(address, db=self._tables.blocks)
        else:
            self.put_block(address, new)
        return True

    def remove_blocks(self, address: bytes, keep: Generation | None, limit: int) -> bool:
        """Removes up to `limit` blocks of an object, except those of the generation `keep`. Returns whether these
        were all."""
        with self._txn.cursor(self._tables.blocks) as cursor:
            found = cursor.set_range(address)
            while found and cursor.key().startswith(address):
                if keep is not None and cursor.key()[OBJECT_ADDRESS : OBJECT_ADDRESS + GENERATION] == keep:
                    found = cursor.next()
                    continue
                if limit == 0:
                    return False
                if (location := decode_location(cursor.value())) is not None:
                    self.dead[location.segment] += record_size(location.length)
                cursor.delete()  # moves on to the next
                limit -= 1
                found = bool(cursor.key())
        return True

    # Heads

    def put_head(self, name: ObjectName, address: bytes, head: Head, trusted_from: float = 0.0) -> None:
        """Writes a head in place of an older one, unless that says the same. `trusted_from`: an older validation says
        nothing."""
        raw = encode_head(name, head)
        if self._txn.put(address, raw, db=self._tables.heads, overwrite=False):  # as for nearly all: they are new
            self._txn.put(listing_key(name, address), b"", db=self._tables.names)
            return
        stored = self._head(address)
        if stored is not None and stored.name == name:
            behind = head.validated_at - stored.head.validated_at
            is_trusted = stored.head.validated_at > trusted_from
            same = stored.head.with_validation(head.validated_at) == head and (
                stored.head.facts.checksums_known == head.facts.checksums_known  # not compared by ==
            )
            if is_trusted and 0 <= behind < SAME_HEAD_SECONDS and same:
                return
        self._txn.put(address, raw, db=self._tables.heads)
        self._txn.put(listing_key(name, address), b"", db=self._tables.names)

    def remove_head(self, name: ObjectName, address: bytes) -> None:
        """Removes the head of an object."""
        self._txn.delete(address, db=self._tables.heads)
        self._txn.delete(listing_key(name, address), db=self._tables.names)

    def remove_head_at(self, address: bytes, only: bytes | None = None) -> None:
        """Removes a head whose name the caller does not know, if it is still the one encoded as `only`.

        A damaged head has no name and leaves its listing key behind: listings skip that.
        """
        raw = self._txn.get(address, db=self._tables.heads)
        if raw is None or (only is not None and raw != only):
            return
        named = decode_head(raw)
        self._txn.delete(address, db=self._tables.heads)
        if named is not None:
            self._txn.delete(listing_key(named.name, address), db=self._tables.names)

    def remove_bare_head(self, address: bytes) -> bool:
        """Removes a head whose name the caller does not know, if its object has no blocks. Returns whether that was so.
        Asked within the transaction: another process may have committed blocks since it was asked before."""
        if has_blocks(self._txn, self._tables, address):
            return False
        self.remove_head_at(address)
        return True

    def _head(self, address: bytes) -> NamedHead | None:
        raw = self._txn.get(address, db=self._tables.heads)
        return decode_head(raw) if raw is not None else None

    # Segments

    def add_segment(self, label: SegmentLabel = PLAIN) -> int:
        """Returns a number that no segment has had, also not before a crash: the row is there before the file."""
        raw = self._txn.get(_NEXT_SEGMENT, db=self._tables.meta)
        number = decode_number(raw) if raw is not None else 0
        self._txn.put(_NEXT_SEGMENT, _NUMBER.pack(number + 1), db=self._tables.meta)
        self._txn.put(_NUMBER.pack(number), _NUMBER.pack(0), db=self._tables.segments)
        if label != PLAIN:
            self._txn.put(segment_key(number), encode_segment(LabelledSegment(label, 0)), db=self._tables.meta)
        return number

    def finish_segment(self, number: int, size: int) -> None:
        """Records the final size of a segment."""
        self._txn.put(_NUMBER.pack(number), _NUMBER.pack(size), db=self._tables.segments)

    def restore_segments(self, sizes: Mapping[int, int], next_number: int) -> None:
        """Records segments that are there already, and the number of the next."""
        for number, size in sizes.items():
            self.finish_segment(number, size)
        self._txn.put(_NEXT_SEGMENT, _NUMBER.pack(next_number), db=self._tables.meta)

    def put_rescan(self, plan: bytes | None) -> None:
        """Records the plan of a rescan; None: there is nothing more to be searched for."""
        if plan is None:
            self._txn.delete(RESCAN, db=self._tables.meta)
        else:
            self._txn.put(RESCAN, plan, db=self._tables.meta)

    def remove_segment(self, number: int) -> None:
        """Removes the rows of a segment."""
        self._txn.delete(_NUMBER.pack(number), db=self._tables.segments)
        self._txn.delete(segment_key(number), db=self._tables.meta)

    def record_dead(self) -> dict[int, int]:
        """Records the bytes of the blocks that this transaction removed. Returns those in segments with a label."""
        recorded: dict[int, int] = {}
        for number, size in self.dead.items():
            row = decode_segment(self._txn.get(segment_key(number), db=self._tables.meta))
            if row is not None:
                raw = encode_segment(row._replace(dead=row.dead + size))
                self._txn.put(segment_key(number), raw, db=self._tables.meta)
                recorded[number] = size
        self.dead.clear()
        return recorded

    def restore_labels(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Records labels and pools that are encoded already."""
        for key, raw in rows:
            self._txn.put(key, raw, db=self._tables.meta)

    def put_pool(self, pool: bytes, row: PoolRow) -> None:
        """Records a pool, or its threshold."""
        self._txn.put(pool_key(pool), encode_pool(row), db=self._tables.meta)


class OrderCommit:
    """Carries orders out on the index. Raises lmdb.Error."""

    def __init__(
        self, index: Index, addressing: Addressing, trusted_from: float, on_dead: Callable[[int, int], None]
    ) -> None:
        """`trusted_from`: heads validated before this time (seconds since the epoch) are not trusted. `on_dead`: called
        with a labelled segment and the bytes in it that are dead since a commit."""
        self._index = index
        self._on_dead = on_dead
        self._addressing = addressing
        self._trusted_from = trusted_from

    def commit(
        self,
        orders: Sequence[WriteOrder],
        locations: Mapping[bytes, BlockLocation],
        removed: dict[Removal, int],
    ) -> None:
        """Commits orders, in order: in one transaction, unless something large is to be removed.

        `locations`: of the admitted blocks, by address. `removed` receives the number of objects that each purge
        removed.
        """
        run: list[WriteOrder] = []
        for order in orders:
            if isinstance(order, PurgePrefix):
                self._commit_run(run, locations)
                run = []
                removed[order] = self._purge(order)
            elif not isinstance(order, FlushQueue):
                run.append(order)
        self._commit_run(run, locations)

    def _commit_run(self, orders: list[WriteOrder], locations: Mapping[bytes, BlockLocation]) -> None:
        if not locations:
            orders = [order for order in orders if not isinstance(order, AdmitBlock) or order.head is not None]
        if not orders:
            return
        large: list[ForgetObject] = []
        trusted_from = self._trusted_from
        with self._index.write_transaction() as txn:
            updates = IndexUpdates(txn, self._index.tables)
            for order in orders:
                # Nearly all are of these two kinds: without patterns, which cost as much as a row.
                if isinstance(order, AdmitBlock):
                    if (location := locations.get(order.address)) is not None:
                        updates.put_block(order.address, location)
                    if order.head is not None:
                        updates.put_head(order.head.name, order.address[:OBJECT_ADDRESS], order.head.head, trusted_from)
                    continue
                if isinstance(order, PutHead):
                    updates.put_head(*order, trusted_from)
                    continue
                match order:
                    case DropBlock(address, location):
                        updates.move_block(address, location, None)
                    case DropHead(address, raw):
                        updates.remove_head_at(address, raw)
                    case ForgetObject(name, address, keep):
                        updates.remove_head(name, address)
                        if not updates.remove_blocks(address, keep, FEW_ROWS):
                            large.append(order)
                    case PurgePrefix() | FlushQueue():
                        pass  # not rows: see `commit`
            dead = updates.record_dead()
        self._report_dead(dead)
        for order in large:
            # Its head is gone, so nothing leads to these blocks any more; still, `forget` promises that they are gone.
            self._remove_blocks(order.address, order.keep)

    def _remove_blocks(self, address: bytes, keep: Generation | None) -> None:
        done = False
        while not done:
            with self._index.write_transaction() as txn:
                updates = IndexUpdates(txn, self._index.tables)
                done = updates.remove_blocks(address, keep, ROWS_AT_ONCE)
                dead = updates.record_dead()
            self._report_dead(dead)

    def _report_dead(self, dead: Mapping[int, int]) -> None:
        for number, size in dead.items():
            self._on_dead(number, size)

    def _purge(self, order: PurgePrefix) -> int:
        """Removes all objects under a prefix and returns their number."""
        start = listing_prefix(order.bucket, order.prefix)
        after = b""
        count = 0
        while rows := self._index.list_names(start, after, NAMES_AT_ONCE):
            after = rows[-1][0]
            names = [found.name for _, raw in rows if (found := decode_head(raw)) is not None]
            forgets: list[WriteOrder] = [
                ForgetObject(name, self._addressing.object_address(name), None, order.on_settled)
                for name in names
                if name.key.startswith(order.prefix)
            ]
            self._commit_run(forgets, {})
            count += len(forgets)
        return count
