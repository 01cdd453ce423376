"""Checksums as headers, and as elements of the documents that name them."""

from typing import Final

import pytest

from forebay.core.heads import HeaderPairs
from forebay.protocol.body.checksum_headers import (
    checksum_elements,
    checksums_in,
    element_name,
    listed_elements,
    with_checksum_type,
)

WHOLE: Final = ("X-Amz-Checksum-CRC32", "AAAAAA==")
COMPOSITE: Final = ("x-amz-checksum-sha1", "2jmj7l5rSw0yVb/vlWAYkK/YBwk=-2")
MODE: Final = ("x-amz-checksum-mode", "ENABLED")
OTHERS: Final[HeaderPairs] = (("ETag", "x"), MODE, ("X-Amz-Checksum-Mode", "ENABLED"), ("Content-MD5", "x"))


@pytest.mark.parametrize(
    ("checksum", "kind"), [(WHOLE, "FULL_OBJECT"), (COMPOSITE, "COMPOSITE")], ids=("whole", "composite")
)
def test_a_checksum_has_a_type(checksum: tuple[str, str], kind: str) -> None:
    headers: HeaderPairs = (*OTHERS, checksum)
    algorithm = checksum[0].rpartition("-")[2].upper()
    typed = (checksum, ("x-amz-checksum-type", kind))
    assert (checksums_in(headers), with_checksum_type(headers)) == ((checksum,), typed)
    assert checksum_elements(typed) == ((element_name(checksum[0]), checksum[1]), ("ChecksumType", kind))
    assert element_name(checksum[0]) == f"Checksum{algorithm}"
    assert listed_elements((*OTHERS, *typed)) == (("ChecksumAlgorithm", algorithm), ("ChecksumType", kind))


def test_an_upload_names_its_algorithm() -> None:
    created = (("X-Amz-Checksum-Algorithm", "CRC32"), ("x-amz-checksum-type", "COMPOSITE"))
    assert checksum_elements((*OTHERS, *created)) == (("ChecksumAlgorithm", "CRC32"), ("ChecksumType", "COMPOSITE"))
    assert checksums_in(created) == ()


def test_headers_without_a_checksum_give_nothing() -> None:
    for made in (checksums_in, with_checksum_type, checksum_elements, listed_elements):
        assert made(OTHERS) == ()
