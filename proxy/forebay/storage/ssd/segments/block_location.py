"""Locations of blocks: the rows of the index, three numbers of four bytes, big-endian."""

import struct
from typing import Final, NamedTuple

ROW: Final = struct.Struct(">III")


class BlockLocation(NamedTuple):
    """The position of a record, and the length of its payload."""

    segment: int
    offset: int
    length: int

    def encode(self) -> bytes:
        """Returns the row of the index."""
        return ROW.pack(*self)


def decode_location(row: bytes | None) -> BlockLocation | None:
    """Decodes a row of the blocks; None if there is none, or it is damaged."""
    return BlockLocation(*ROW.unpack(row)) if row is not None and len(row) == ROW.size else None
