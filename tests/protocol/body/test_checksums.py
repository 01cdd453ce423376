import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import ChecksumCheck, algorithm_of, decode, encode, encoded_size, hasher

# The check values of the CRC catalogue and of the hashes' own standards, over "123456789".
KNOWN = {
    "crc32": "cbf43926",
    "crc32c": "e3069283",
    "crc64nvme": "ae8b14860a799888",
    "md5": "25f9e794323b453885f5181f1b624d0b",
    "sha1": "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
    "sha256": "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
}
HEADERS = [f"x-amz-checksum-{name}" for name in (*KNOWN, "sha512")] + ["content-md5"]


@pytest.mark.parametrize("algorithm", list(KNOWN))
def test_pieces_give_the_known_check_values(algorithm: str) -> None:
    computed = hasher(algorithm)
    for piece in (b"1234", memoryview(b"5678"), b"", b"9"):
        computed.update(piece)
    assert computed.digest().hex() == KNOWN[algorithm]


@given(st.sampled_from(HEADERS), st.lists(st.binary(max_size=50), max_size=4))
def test_only_the_right_checksum_passes(header: str, pieces: list[bytes]) -> None:
    computed = hasher(algorithm_of(header))
    computed.update(b"".join(pieces))
    digest = computed.digest()
    assert len(encode(digest)) == encoded_size(header)
    right = ChecksumCheck(header, decode(header, encode(digest)))
    wrong = ChecksumCheck(header, bytes([digest[0] ^ 1]) + digest[1:])
    trailing = ChecksumCheck(header)
    for check in (right, wrong, trailing):
        for piece in pieces:
            check.update(piece)
    assert right.finish({}) == encode(digest)
    assert trailing.finish({header: encode(digest)}) == encode(digest)
    with pytest.raises(S3Error) as refused:
        wrong.finish({})
    assert refused.value.code == "BadDigest"


@pytest.mark.parametrize("value", ["", "AAAA", "AAAAAA=", "AAAAAA==AAAA", "AA AAAA==", "é", "AAAAAA==\n", "_____w=="])
def test_a_malformed_checksum_is_refused_at_once(value: str) -> None:
    for header, code in (("x-amz-checksum-crc32", "InvalidRequest"), ("content-md5", "InvalidDigest")):
        with pytest.raises(S3Error) as refused:
            decode(header, value)
        assert refused.value.code == code


@pytest.mark.parametrize(
    "header", ["x-amz-checksum-xxhash64", "x-amz-checksum-", "x-amz-checksum-CRC32", "crc32", "md5"]
)
def test_an_unknown_algorithm_is_refused(header: str) -> None:
    with pytest.raises(S3Error) as refused:
        algorithm_of(header)
    assert refused.value.code == "NotImplemented"


def test_a_missing_announced_trailer_is_refused() -> None:
    with pytest.raises(S3Error) as refused:
        ChecksumCheck("x-amz-checksum-crc32").finish({})
    assert refused.value.code == "InvalidRequest"
