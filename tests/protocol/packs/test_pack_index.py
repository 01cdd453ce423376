"""Indexes of packs: what was written is found, and what is damaged is refused, wherever the damage is."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import MalformedPack
from forebay.protocol.packs.index_block import BLOCK_MEMBERS
from forebay.protocol.packs.pack_index import IndexWriter, PackIndex, footer_span, open_index, tables_span
from forebay.protocol.packs.packed_member import PackedMember
from harness.packed_objects import KEYS, SHARDS, index_bytes, members


def lookup(index: PackIndex, content: bytes, key: str) -> PackedMember | None:
    number = index.block_of(key)
    if number is None:
        return None
    span = index.span(number)
    return index.decode(number, content[span.start : span.stop]).find(key)


def numbered(count: int) -> list[PackedMember]:
    return [
        PackedMember(
            f"train/n{number // 1000:05}/{number:09}.jpg",
            0,
            512 * (1 + 42 * number),
            20_000 + number % 977,
            f'"{number:032x}"',
            1_700_000_000 + number // 50,
            (("Content-Type", "image/jpeg"),),
            bytes(8),
        )
        for number in range(count)
    ]


def all_members(index: PackIndex, content: bytes) -> list[PackedMember]:
    spans = [index.span(number) for number in range(index.blocks)]
    blocks = [index.decode(number, content[span.start : span.stop]) for number, span in enumerate(spans)]
    return [block.member(number) for block in blocks for number in range(len(block))]


@given(members(), st.lists(KEYS, max_size=5))
def test_what_was_written_is_found(found: list[PackedMember], others: list[str]) -> None:
    content = index_bytes(found)
    index = open_index(content)
    assert len(index) == len(found)
    assert [lookup(index, content, each.key) for each in found] == found
    assert all_members(index, content) == found
    for key in set(others) - {each.key for each in found}:
        assert lookup(index, content, key) is None


@given(members(), st.data())
def test_no_damage_shows_another_member(found: list[PackedMember], data: st.DataObject) -> None:
    content = bytearray(index_bytes(found))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= data.draw(st.integers(1, 255))
    try:
        index = open_index(bytes(content))
        shown = all_members(index, bytes(content))
    except MalformedPack:
        return
    assert position < 8, "only the first magic is not vouched for, and says nothing of members"
    assert shown == found


@given(members(), st.data())
def test_a_cut_or_grown_index_is_refused(found: list[PackedMember], data: st.DataObject) -> None:
    content = index_bytes(found)
    with pytest.raises(MalformedPack):
        open_index(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(MalformedPack):
        open_index(content + data.draw(st.binary(min_size=1, max_size=90)))


@given(st.binary(max_size=300))
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(MalformedPack):
        open_index(content)


def test_the_reason_names_what_is_wrong() -> None:
    content = index_bytes(numbered(3))
    newer = content[:-8] + (2).to_bytes(2, "little") + content[-6:]
    for damaged, reason in (
        (content[:-1], "cut short"),
        (newer, "version 2"),
        (content[:8] + content[9:], "bytes in place of"),
        (content[:-100] + bytes([content[-100] ^ 1]) + content[-99:], "do not match their digest"),
    ):
        with pytest.raises(MalformedPack, match=reason):
            open_index(damaged)


def test_a_damaged_block_is_refused_alone() -> None:
    found = numbered(3 * BLOCK_MEMBERS)
    content = bytearray(index_bytes(found))
    index = open_index(bytes(content))
    content[index.span(1).start + 9] ^= 1
    assert lookup(index, bytes(content), found[0].key) == found[0]
    with pytest.raises(MalformedPack, match="block 1 of the index does not match its checksum"):
        lookup(index, bytes(content), found[BLOCK_MEMBERS].key)


def test_members_in_another_order_are_refused() -> None:
    writer = IndexWriter()
    first, second = numbered(2)
    writer.add(second)
    with pytest.raises(ValueError, match="does not come after"):
        writer.add(first)


def test_the_description_comes_back() -> None:
    description = open_index(index_bytes(numbered(5), prefix="train/")).description
    assert description.shards == SHARDS
    assert description.prefixes == ("train/",)
    assert description.sizes == sum(each.size for each in numbered(5))


def test_an_index_is_read_by_its_last_bytes() -> None:
    content = index_bytes(numbered(1000))
    footer = footer_span(len(content))
    tables = tables_span(len(content), content[footer.start :])
    index = PackIndex(len(content), content[footer.start :], content[tables.start : tables.stop])
    assert tables.stop == footer.start
    assert len(index) == 1000


@pytest.mark.parametrize(
    ("free", "resident", "on_disk"), [(False, 1.2, 36), (True, 1.6, 76)], ids=["names of a pattern", "free names"]
)
def test_bytes_a_file(free: bool, resident: float, on_disk: float) -> None:  # a parameter
    found = numbered(8000)
    if free:
        found = sorted(each._replace(key=f"{hash_of(number)}.jpg") for number, each in enumerate(found))
    found = [
        each._replace(digest=bytes.fromhex(hash_of(number)[:16]), etag=f'"{hash_of(number)[:32]}"')
        for number, each in enumerate(found)
    ]
    content = index_bytes(found)
    assert open_index(content).resident_bytes / len(found) < resident
    assert len(content) / len(found) < on_disk


def hash_of(number: int) -> str:
    return sha256(str(number).encode()).hexdigest()
