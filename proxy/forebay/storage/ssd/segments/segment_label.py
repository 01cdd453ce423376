"""Labels: the kind of blocks in a segment, so that blocks of one pool and band are reclaimed together, without a copy.

    pool    8 bytes   hash of the pool's name; zeros: the objects without a pool
    band    1 byte    of a stable share, 0 the first to go (policy.stable_share)
                      253 pinned; the pool is the id of the pin (ssd_pins.py)
                      254 in LRU order

Labels and pools are rows of the table `meta`.

    "segment" and the number (4)    pool, band, bytes of its records that no row leads to any more (4)
    "pool" and the pool             threshold (1), 1 for epoch or 0 for lru (1), name (UTF-8)
"""

import struct
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from forebay.storage.ssd.segments.addressing import text_bytes

POOL_ID: Final = 8
NO_POOL: Final = bytes(POOL_ID)
PINNED_BAND: Final = 253
LRU_BAND: Final = 254
FINENESS: Final = 3
"""The base-2 logarithm of the number of bands in each halving: 8 bands. A segment has blocks of one band only, so there
are few bands."""

_SEGMENT: Final = b"segment"
_POOL: Final = b"pool"
_LABEL = struct.Struct(f">{POOL_ID}sBI")
_THRESHOLD = struct.Struct(">BB")
_NUMBER = struct.Struct(">I")


class SegmentLabel(NamedTuple):
    """The properties that all blocks of a segment share."""

    pool: bytes
    band: int

    @property
    def is_pinned(self) -> bool:
        """Whether the blocks were pinned when they were written."""
        return self.band == PINNED_BAND


PLAIN: Final = SegmentLabel(NO_POOL, LRU_BAND)
"""Segments without a row: blocks of objects without a pool."""


class LabelledSegment(NamedTuple):
    """The row of a segment."""

    label: SegmentLabel
    dead: int
    """Bytes of records that no row leads to any more: of replaced and deleted versions."""


class PoolRow(NamedTuple):
    """The row of a pool."""

    name: str
    is_epoch: bool
    threshold: int
    """The marginal band."""


def pool_id(name: str, *, is_epoch: bool) -> bytes:
    """Returns the id of the pool with that name. A pool in another order is another pool."""
    return blake2b(text_bytes(name), digest_size=POOL_ID, person=b"epoch" if is_epoch else b"lru").digest()


def segment_key(number: int) -> bytes:
    """Returns the key of a segment's label."""
    return _SEGMENT + _NUMBER.pack(number)


def encode_segment(segment: LabelledSegment) -> bytes:
    """Returns the row of a segment."""
    return _LABEL.pack(*segment.label, min(segment.dead, 0xFFFFFFFF))


def decode_segment(raw: bytes | None) -> LabelledSegment | None:
    """Decodes the row of a segment; None if there is none, or it is damaged."""
    if raw is None or len(raw) != _LABEL.size:
        return None
    pool, band, dead = _LABEL.unpack(raw)
    return LabelledSegment(SegmentLabel(pool, band), dead)


def pool_key(pool: bytes) -> bytes:
    """Returns the key of a pool's row."""
    return _POOL + pool


def encode_pool(row: PoolRow) -> bytes:
    """Returns the row of a pool."""
    return _THRESHOLD.pack(row.threshold, row.is_epoch) + text_bytes(row.name)


def is_label(key: bytes) -> bool:
    """Returns whether this is the key of a label or of a pool."""
    return key.startswith((_SEGMENT, _POOL))


def read_labels(cursor: Any) -> Iterator[tuple[int, LabelledSegment]]:
    """Yields the labels that a cursor of the table finds, by the number of the segment."""
    found = cursor.set_range(_SEGMENT)
    while found and (key := cursor.key()).startswith(_SEGMENT):
        row = decode_segment(cursor.value())
        if row is not None and len(key) == len(_SEGMENT) + _NUMBER.size:
            yield _NUMBER.unpack_from(key, len(_SEGMENT))[0], row
        found = cursor.next()


def read_pools(cursor: Any) -> Iterator[tuple[bytes, PoolRow]]:
    """Yields the pools that a cursor of the table finds, by their ids."""
    found = cursor.set_range(_POOL)
    while found and (key := cursor.key()).startswith(_POOL):
        raw = cursor.value()
        if len(key) == len(_POOL) + POOL_ID and len(raw) >= _THRESHOLD.size:
            threshold, is_epoch = _THRESHOLD.unpack_from(raw)
            name = raw[_THRESHOLD.size :].decode("utf-8", "replace")
            yield key[len(_POOL) :], PoolRow(name, bool(is_epoch), threshold)
        found = cursor.next()
