"""What the writer does to the index, as steps inside one write transaction (Index.writing).

Everything here may be done again after the transaction was undone: no step depends on having been done once.
"""

import struct
from typing import Any, Final

from forebay.core.heads import Head
from forebay.core.names import Generation, ObjectName
from forebay.storage.ssd.addressing import GENERATION, OBJECT_ADDRESS, listing_key
from forebay.storage.ssd.head_codec import NamedHead, decode_head, encode_head
from forebay.storage.ssd.index import BlockLocation, Tables, decode_location

_NUMBER = struct.Struct(">I")
_NEXT_SEGMENT: Final = b"next_segment"
# A head that says the same and was vouched for less than this many seconds later is not written again.
SAME_HEAD_SECONDS: Final = 1.0


class IndexUpdates:
    """The steps. `txn` is a write transaction of the index whose tables are given."""

    def __init__(self, txn: Any, tables: Tables) -> None:
        self._txn = txn
        self._tables = tables

    # Blocks

    def put_block(self, address: bytes, place: BlockLocation) -> None:
        self._txn.put(address, place.encode(), db=self._tables.blocks)

    def move_block(self, address: bytes, old: BlockLocation, new: BlockLocation | None) -> bool:
        """Point a block from `old` to `new`, or to nothing; whether it still pointed to `old`."""
        if decode_location(self._txn.get(address, db=self._tables.blocks)) != old:
            return False
        if new is None:
            self._txn.delete(address, db=self._tables.blocks)
        else:
            self.put_block(address, new)
        return True

    def remove_blocks(self, address: bytes, keep: Generation | None, limit: int) -> bool:
        """Remove up to `limit` blocks of an object, except those of the generation `keep`; whether that was all."""
        with self._txn.cursor(self._tables.blocks) as cursor:
            found = cursor.set_range(address)
            while found and cursor.key().startswith(address):
                if keep is not None and cursor.key()[OBJECT_ADDRESS : OBJECT_ADDRESS + GENERATION] == keep:
                    found = cursor.next()
                    continue
                if limit == 0:
                    return False
                cursor.delete()  # moves on to the next
                limit -= 1
                found = bool(cursor.key())
        return True

    # Heads

    def put_head(self, name: ObjectName, address: bytes, head: Head) -> None:
        stored = self._head(address)
        if stored is not None and stored.name == name:
            behind = head.validated_at - stored.head.validated_at
            if 0 <= behind < SAME_HEAD_SECONDS and stored.head.validated(head.validated_at) == head:
                return
        self._txn.put(address, encode_head(name, head), db=self._tables.heads)
        self._txn.put(listing_key(name, address), b"", db=self._tables.names)

    def remove_head(self, name: ObjectName, address: bytes) -> None:
        self._txn.delete(address, db=self._tables.heads)
        self._txn.delete(listing_key(name, address), db=self._tables.names)

    def remove_head_at(self, address: bytes, only: bytes | None = None) -> None:
        """Remove a head whose name is not at hand, if it is still the one encoded as `only`.

        A damaged one doesn't tell its name, and leaves its listing key behind: listings skip that.
        """
        raw = self._txn.get(address, db=self._tables.heads)
        if raw is None or (only is not None and raw != only):
            return
        named = decode_head(raw)
        self._txn.delete(address, db=self._tables.heads)
        if named is not None:
            self._txn.delete(listing_key(named.name, address), db=self._tables.names)

    def _head(self, address: bytes) -> NamedHead | None:
        raw = self._txn.get(address, db=self._tables.heads)
        return decode_head(raw) if raw is not None else None

    # Segments

    def add_segment(self) -> int:
        """A number that no segment has had, also not before a crash: the row is there before the file."""
        raw = self._txn.get(_NEXT_SEGMENT, db=self._tables.meta)
        number: int = _NUMBER.unpack(raw)[0] if raw is not None else 0
        self._txn.put(_NEXT_SEGMENT, _NUMBER.pack(number + 1), db=self._tables.meta)
        self._txn.put(_NUMBER.pack(number), _NUMBER.pack(0), db=self._tables.segments)
        return number

    def finish_segment(self, number: int, size: int) -> None:
        self._txn.put(_NUMBER.pack(number), _NUMBER.pack(size), db=self._tables.segments)

    def remove_segment(self, number: int) -> None:
        self._txn.delete(_NUMBER.pack(number), db=self._tables.segments)
