from hypothesis import given
from hypothesis import strategies as st

from forebay.core.names import ObjectName
from forebay.storage.ssd.index.listing_keys import listing_key, listing_prefix
from forebay.storage.ssd.segments.addressing import Addressing

TEXT = st.text(st.characters(exclude_categories=()), max_size=500)
NAMES = st.builds(ObjectName, st.sampled_from(["b", "bucket"]), TEXT)
ADDRESSING = Addressing(lambda _: "origin", bytes(16))


@given(NAMES, st.integers(0, 500))
def test_a_listing_key_begins_with_every_prefix_and_fits(name: ObjectName, length: int) -> None:
    key = listing_key(name, ADDRESSING.object_address(name))
    assert len(key) <= 511
    assert key.startswith(listing_prefix(name.bucket, name.key[:length]))
