"""Listing keys: the names of objects in the byte order of bucket and key.

    listing key     <=417 bytes    the first 400 bytes of "bucket NUL key", NUL, object address

    b NUL a NUL address     b NUL ppp...p NUL address      b NUL ppp...p NUL address     b NUL z NUL ...
    whole name: in order    cut after 400 bytes: names that share these are in the order of addresses

A prefix is a range of listing keys. LMDB's keys end at 511 bytes, so names that agree in their first 400 are told apart
by the address and ordered when they are read: all that share a cut key are read each time, which is slow for thousands
of them, and right.

A cursor says where a listing goes on: a listing key, or, among names that share a cut key, FULL and the whole name.
"""

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import Any, Final, TypeAlias

from forebay.core.names import ObjectName
from forebay.storage.ssd.index.head_codec import decode_head
from forebay.storage.ssd.segments.addressing import OBJECT_ADDRESS, text_bytes

LISTED_BYTES: Final = 400
FULL: Final = b"\xff"
"""Begins no listing key: these are UTF-8."""
_CUT: Final = LISTED_BYTES + 1 + OBJECT_ADDRESS
"""Bytes of a listing key whose name may be longer than it says."""
_BEYOND: Final = b"\1"
"""The byte in place of the NUL behind 400 bytes: it sorts behind all names that begin with these."""

ListingRow: TypeAlias = tuple[bytes, bytes]
"""The cursor behind a name, and its head as it is encoded; empty if there is none."""


def ordered_name(name: ObjectName) -> bytes:
    """Returns the name in bytes that sort as listings do."""
    return text_bytes(f"{name.bucket}\0{name.key}")


def listing_prefix(bucket: str, prefix: str) -> bytes:
    """Returns the common start of the listing keys of all objects whose keys start with `prefix`. Others may share
    it."""
    return ordered_name(ObjectName(bucket, prefix))[:LISTED_BYTES]


def listing_key(name: ObjectName, address: bytes) -> bytes:
    """Returns the listing key of an object. `address` must be its object address."""
    return ordered_name(name)[:LISTED_BYTES] + b"\0" + address


def list_names(
    cursor: Any, head_at: Callable[[bytes], bytes], prefix: bytes, after: bytes, limit: int
) -> list[ListingRow]:
    """Returns up to `limit` rows of names whose listing keys start with `prefix`, beyond the cursor `after`.

    `cursor`: LMDB's, over the names. `head_at`: returns the head at an object's address.
    """
    found: list[ListingRow] = []
    if after.startswith(FULL):
        name = after[len(FULL) :]
        if name.startswith(prefix):
            found += _names_of_cut_key(cursor, head_at, name[:LISTED_BYTES], name, limit)
        after = name[:LISTED_BYTES] + _BEYOND
    more = cursor.set_range(max(prefix, after))
    if more and cursor.key() == after:
        more = cursor.next()
    while more and len(found) < limit and cursor.key().startswith(prefix):
        key = cursor.key()
        if len(key) == _CUT:
            found += _names_of_cut_key(cursor, head_at, key[:LISTED_BYTES], b"", limit - len(found))
            more = cursor.set_range(key[:LISTED_BYTES] + _BEYOND)
        else:
            found.append((key, head_at(key[-OBJECT_ADDRESS:])))
            more = cursor.next()
    return found


def _names_of_cut_key(
    cursor: Any, head_at: Callable[[bytes], bytes], start: bytes, after: bytes, limit: int
) -> list[ListingRow]:
    """Returns the next `limit` names that begin with `start`, beyond `after`, in order. A damaged head has no name and
    is left out."""

    def rows() -> Iterator[ListingRow]:
        more = cursor.set_range(start + b"\0")
        while more and cursor.key().startswith(start + b"\0"):
            raw = head_at(cursor.key()[-OBJECT_ADDRESS:])
            named = decode_head(raw)
            if named is not None and (name := ordered_name(named.name)) > after:
                yield FULL + name, raw
            more = cursor.next()

    return nsmallest(limit, rows())
