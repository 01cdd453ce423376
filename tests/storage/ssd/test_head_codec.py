from hypothesis import given
from hypothesis import strategies as st

from forebay.core.heads import Head, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.storage.ssd.head_codec import decode_head, encode_head
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


FIRST_ENCODING = bytes.fromhex(
    "01d70270518ed5446d41d954fc40000000000000000000271000001000b11f304f6e5f971c00000700000006000000030000000500000000"
    "0000001d0000000c0000000a6275636b65746b6579226f6e65225468752c203031204a616e20313937302030303a30303a303020474d5463"
    "6f6e74656e742d74797065746578742f706c61696e"
)
"""What head_for("key") was in version 1."""


def test_a_head_of_the_first_encoding_is_read_still() -> None:
    decoded = decode_head(FIRST_ENCODING)
    assert decoded == head_for("key")
    assert not decoded.head.facts.checksums_known


def test_a_head_of_an_unknown_encoding_is_none() -> None:
    assert decode_head(b"\3" + FIRST_ENCODING[1:]) is None


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
