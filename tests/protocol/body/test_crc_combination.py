"""CRCs of parts combine to that of the whole, whatever the parts are."""

from base64 import b64decode
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.body.crc_combination import combine_crcs, is_combinable
from harness.fake.checksums import digest_of

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
