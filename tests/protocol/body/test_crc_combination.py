"""CRCs of parts combine to that of the whole, whatever the parts are."""

from base64 import b64decode
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.body.crc64 import crc64
from forebay.protocol.body.crc_combination import combine_crc64, combine_crcs, is_combinable
from harness.fake.checksums import digest_of

BYTES = st.binary(max_size=2000)
ALGORITHMS = ["crc32", "crc32c", "crc64nvme"]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(content=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=4))
def test_parts_combine_to_the_whole(algorithm: str, content: bytes, cuts: list[int]) -> None:
    whole = b64decode(digest_of(algorithm, b""))
    for start, stop in pairwise([0, *sorted(cuts), 300]):
        part = content[start:stop]
        whole = combine_crcs(algorithm, whole, b64decode(digest_of(algorithm, part)), len(part))
    assert whole == b64decode(digest_of(algorithm, content))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_long_parts_combine(algorithm: str) -> None:
    first, second = b"first", bytes(5 << 20)
    one, other, both = (b64decode(digest_of(algorithm, each)) for each in (first, second, first + second))
    assert combine_crcs(algorithm, one, other, len(second)) == both


def test_only_crcs_combine() -> None:
    assert [is_combinable(each) for each in (*ALGORITHMS, "sha1", "sha256", "md5")] == [True] * 3 + [False] * 3


@given(st.lists(BYTES, max_size=5))
def test_pieces_and_combined_crcs_match_the_whole(pieces: list[bytes]) -> None:
    running = joined = 0
    for piece in pieces:
        running = crc64(piece, running)
        joined = combine_crc64(joined, crc64(piece), len(piece))
    assert running == joined == crc64(b"".join(pieces))


@given(BYTES, st.integers(0, 70_000))
def test_a_long_second_run_is_combined(first: bytes, length: int) -> None:
    assert combine_crc64(crc64(first), crc64(bytes(length)), length) == crc64(first + bytes(length))


@given(
    st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**48),
    st.integers(0, 2**48),
)  # fmt: skip
def test_combine_is_associative(first: int, second: int, third: int, size: int, last: int) -> None:
    """Also at the lengths of the largest objects, too long to compute here."""
    left = combine_crc64(combine_crc64(first, second, size), third, last)
    assert left == combine_crc64(first, combine_crc64(second, third, last), size + last)
