"""Bodies of blocks: what was packed comes back, and nothing else does."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import StorageError
from forebay.namespace.entry_block import pack_block, unpack_block
from forebay.protocol.xml.entry_rows import EntryRows
from forebay.protocol.xml.listed_page import KeyEncoding, owner_mark

KEYS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1), min_size=1)


@given(KEYS, st.integers(0, 3))
def test_what_was_packed_comes_back(keys: list[str], owners: int) -> None:
    facts = [f"<Size>{number}</Size>{owner_mark(number % owners) if owners else ''}" for number in range(len(keys))]
    rows = EntryRows.written(keys, facts, KeyEncoding())
    read = unpack_block(memoryview(pack_block(rows)))
    assert (read.keys, list(read.bounds), read.owners) == (keys, rows.bounds, rows.owners)
    assert (bytes(read.content), read.is_plain) == (rows.content, rows.is_plain)


@pytest.mark.parametrize("at", [0, 4])
def test_a_body_that_contradicts_itself_is_damaged(at: int) -> None:
    body = bytearray(pack_block(EntryRows.written(["a", "b"], ["", ""], KeyEncoding())))
    for number in (0, 1, 3, 1 << 31):
        struct.pack_into("<I", body, at, number)
        if number != 3 or at != 4:  # three bytes of keys is what it has
            with pytest.raises(StorageError, match="damaged"):
                unpack_block(memoryview(body))
    with pytest.raises(StorageError, match="damaged"):
        unpack_block(memoryview(b"short"))
