import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MalformedPack
from forebay.protocol.packs.tombstones import (
    Tombstone,
    encode_tombstones,
    index_key_of,
    merged_key,
    parse_tombstones,
    tombstones_key,
    tombstones_prefix,
)
from harness.packed_objects import KEYS

INDEX = "packed/train/index.fbpack"
TOMBSTONES = st.builds(Tombstone, KEYS, KEYS, st.integers(0, 1 << 60))


@given(st.lists(TOMBSTONES))
def test_tombstones_survive_their_bytes(tombstones: list[Tombstone]) -> None:
    assert parse_tombstones(encode_tombstones(tombstones)) == sorted(set(tombstones))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"deleted": 1}', b'{"deleted": [["key", "shard"]]}', b'{"deleted": [["key", "shard", "x"]]}'],
)
def test_damage_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedPack, match="tombstones that can't be read"):
        parse_tombstones(content)


@given(st.floats(0, 4e9), st.binary(min_size=4, max_size=4))
def test_a_key_names_its_index_and_comes_before_it(at: float, token: bytes) -> None:
    key = tombstones_key(INDEX, at, token)
    assert index_key_of(key) == INDEX
    assert tombstones_prefix(INDEX) < key < INDEX


@pytest.mark.parametrize(
    "key", ["packed/train/index.fbpack", "a.deleted/b.json", ".deleted/0199b1c2d3e4-5f6a7b8c.json"]
)
def test_other_keys_are_none_of_tombstones(key: str) -> None:
    assert index_key_of(key) is None


@given(st.lists(st.floats(0, 4e9), min_size=1, max_size=9), st.floats(0, 4e9))
def test_a_merged_object_comes_after_all_that_it_replaces(times: list[float], now: float) -> None:
    merged = [tombstones_key(INDEX, at, b"\xff" * 4) for at in times]
    assert merged_key(INDEX, merged, now, bytes(4)) > max(merged)
