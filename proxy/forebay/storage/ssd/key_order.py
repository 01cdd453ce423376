"""Names in the order of their keys, also of those whose listing keys can't tell them apart.

    listing keys    b NUL a NUL address     b NUL ppp...p NUL address      b NUL ppp...p NUL address     b NUL z NUL ...
                    whole names: in order   cut after 400 bytes: a crowd, in the order of addresses      in order again

A crowd is read as a whole each time, and of it the next names are given in their own order: slow for a crowd of
thousands, which nobody has seen, and right.

A cursor says where a listing goes on: a listing key, or, within a crowd, FULL and the whole name.
"""

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import Any, Final, TypeAlias

from forebay.storage.ssd.addressing import LISTED_BYTES, OBJECT_ADDRESS, ordered_name
from forebay.storage.ssd.head_codec import decode_head

FULL: Final = b"\xff"
"""Begins no listing key: these are UTF-8."""
_CUT: Final = LISTED_BYTES + 1 + OBJECT_ADDRESS
"""Bytes of a listing key whose name may be longer than it says."""
_BEYOND: Final = b"\1"
"""In place of the NUL behind 400 bytes: behind all names that begin with these."""

ListingRow: TypeAlias = tuple[bytes, bytes]
"""Where to go on behind a name, and its head as it is encoded; empty if there is none."""


def list_names(
    cursor: Any, head_at: Callable[[bytes], bytes], prefix: bytes, after: bytes, limit: int
) -> list[ListingRow]:
    """Up to `limit` rows of names whose listing keys start with `prefix`, from beyond the cursor `after` on. `cursor`:
    LMDB's, over the names; `head_at`: the head at an object's address."""
    found: list[ListingRow] = []
    if after.startswith(FULL):
        whole = after[len(FULL) :]
        if whole.startswith(prefix):
            found += _crowd(cursor, head_at, whole[:LISTED_BYTES], whole, limit)
        after = whole[:LISTED_BYTES] + _BEYOND
    more = cursor.set_range(max(prefix, after))
    if more and cursor.key() == after:
        more = cursor.next()
    while more and len(found) < limit and cursor.key().startswith(prefix):
        key = cursor.key()
        if len(key) == _CUT:
            found += _crowd(cursor, head_at, key[:LISTED_BYTES], b"", limit - len(found))
            more = cursor.set_range(key[:LISTED_BYTES] + _BEYOND)
        else:
            found.append((key, head_at(key[-OBJECT_ADDRESS:])))
            more = cursor.next()
    return found


def _crowd(cursor: Any, head_at: Callable[[bytes], bytes], start: bytes, after: bytes, limit: int) -> list[ListingRow]:
    """Of the names that begin with `start`, the next `limit` beyond `after`, in order. One whose head is damaged
    doesn't tell its name, and is left out."""

    def rows() -> Iterator[ListingRow]:
        more = cursor.set_range(start + b"\0")
        while more and cursor.key().startswith(start + b"\0"):
            raw = head_at(cursor.key()[-OBJECT_ADDRESS:])
            named = decode_head(raw)
            if named is not None and (whole := ordered_name(named.name)) > after:
                yield FULL + whole, raw
            more = cursor.next()

    return nsmallest(limit, rows())
