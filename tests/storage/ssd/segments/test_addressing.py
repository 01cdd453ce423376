from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import ObjectName
from forebay.storage.ssd.segments.addressing import BLOCK_ADDRESS, Addressing
from harness.ssd_rig import block_id

TEXT = st.text(st.characters(exclude_categories=()), max_size=500)
NAMES = st.builds(ObjectName, st.sampled_from(["b", "bucket"]), TEXT)
ADDRESSING = Addressing(lambda _: "origin", bytes(16))


def test_where_the_bucket_ends_matters() -> None:
    assert ADDRESSING.object_address(ObjectName("a", "bc")) != ADDRESSING.object_address(ObjectName("ab", "c"))


def test_origin_and_salt_matter() -> None:
    name = ObjectName("a", "b")
    others = [Addressing(lambda _: "origin", bytes(15) + b"1"), Addressing(lambda _: "other", bytes(16))]
    assert ADDRESSING.object_address(name) not in [other.object_address(name) for other in others]


def test_blocks_of_a_version_lie_in_order() -> None:
    addresses = [ADDRESSING.block_address(block_id("a", number)) for number in (0, 1, 255, 256, 65536)]
    assert addresses == sorted(addresses)
    assert {len(address) for address in addresses} == {BLOCK_ADDRESS}


@given(NAMES, NAMES)
def test_different_names_have_different_addresses(one: ObjectName, other: ObjectName) -> None:
    assert (ADDRESSING.object_address(one) == ADDRESSING.object_address(other)) == (one == other)
