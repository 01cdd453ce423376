"""Locations of blocks: the rows that the index keeps."""

import pytest

from forebay.storage.ssd.segments.block_location import BlockLocation, decode_location


def test_a_row_is_three_numbers_in_network_order() -> None:
    location = BlockLocation(1, 0x0203, 0xFFFFFFFF)
    assert location.encode() == bytes.fromhex("00000001 00000203 ffffffff")
    assert decode_location(location.encode()) == location


@pytest.mark.parametrize("row", [None, b"", b"x" * 11, b"x" * 13])
def test_a_row_of_another_length_is_none(row: bytes | None) -> None:
    assert decode_location(row) is None
