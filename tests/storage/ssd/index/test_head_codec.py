import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.storage.ssd.index.head_codec import decode_head, encode_head
from harness.ssd_rig import head_for

# Any text, lone surrogates included: a key is whatever a client managed to send.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
HEADS = st.builds(
    Head,
    st.builds(
        ObjectFacts,
        st.builds(Version, TEXT, st.none() | TEXT),
        st.integers(0, 2**63),
        TEXT,
        st.lists(st.tuples(TEXT, TEXT), max_size=4).map(tuple),
        st.booleans(),
    ),
    st.integers(1, 2**31),
    st.binary(min_size=8, max_size=8).map(Generation),
    st.floats(allow_nan=False),
)


@given(st.builds(ObjectName, TEXT, TEXT), HEADS)
def test_a_head_comes_back_as_it_was(name: ObjectName, head: Head) -> None:
    decoded = decode_head(encode_head(name, head))
    assert decoded == (name, head)
    assert decoded.head.facts.checksums_known == head.facts.checksums_known, "which no comparison of facts covers"


@pytest.mark.parametrize("encoding", [1, 3])
def test_a_head_of_another_encoding_is_none(encoding: int) -> None:
    """Its checksum does not cover the number."""
    assert decode_head(bytes([encoding]) + encode_head(*head_for("key"))[1:]) is None


@given(st.data())
def test_no_head_with_a_flipped_bit_is_decoded(data: st.DataObject) -> None:
    raw = bytearray(encode_head(*head_for("key")))
    bit = data.draw(st.integers(0, 8 * len(raw) - 1))
    raw[bit // 8] ^= 1 << bit % 8
    assert decode_head(bytes(raw)) is None


@given(st.integers(0, 200))
def test_no_truncated_head_is_believed(length: int) -> None:
    raw = encode_head(*head_for("key"))
    assert length >= len(raw) or decode_head(raw[:length]) is None
