"""The checks of a body: what was declared is compared, whichever pieces the bytes come in."""

from base64 import b64encode
from hashlib import md5, sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.protocol.body.checksums import ChecksumCheck
from forebay.protocol.body.payload_checks import PayloadChecks

MD5 = "content-md5"


@given(st.lists(st.binary(max_size=20)))
def test_whatever_is_declared_is_verified(pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    right = md5(whole, usedforsecurity=False).digest()
    checks = PayloadChecks([ChecksumCheck(MD5, right)], sha256(whole).hexdigest().upper())
    checks.update(pieces)
    assert checks.verify({}) == {MD5: b64encode(right).decode()}
    wrong = PayloadChecks([ChecksumCheck(MD5, right)])
    wrong.update([*pieces, b"more"])
    with pytest.raises(S3Error, match="BadDigest"):
        wrong.verify({})


@pytest.mark.parametrize("declared", ["0" * 64, "no hash"])
def test_another_hash_is_refused_as_it_was_declared(declared: str) -> None:
    checks = PayloadChecks([], declared)
    with pytest.raises(S3Error, match="XAmzContentSHA256Mismatch") as refused:
        checks.verify({})
    assert refused.value.details["ClientComputedContentSHA256"] == declared


def test_only_crcs_take_no_time() -> None:
    assert not PayloadChecks([]).is_slow
    assert not PayloadChecks([ChecksumCheck("x-amz-checksum-crc32")]).is_slow
    assert PayloadChecks([ChecksumCheck("x-amz-checksum-sha1")]).is_slow
    assert PayloadChecks([], "0" * 64).is_slow


def test_the_declared_md5_is_known_beforehand() -> None:
    assert PayloadChecks(
        [ChecksumCheck("x-amz-checksum-crc32", bytes(4)), ChecksumCheck(MD5, bytes(16))]
    ).declared_md5 == bytes(16)
    assert PayloadChecks([ChecksumCheck("x-amz-checksum-crc32")]).declared_md5 is None
