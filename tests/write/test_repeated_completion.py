"""The ETag of an object by the list of its completion."""

from hashlib import md5

import pytest

from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.write.repeated_completion import completed_etag

FIRST, SECOND = md5(b"first").hexdigest(), md5(b"second").hexdigest()


def test_it_is_the_md5_of_the_parts_md5s() -> None:
    """Whichever way its client writes theirs."""
    expected = md5(bytes.fromhex(FIRST) + bytes.fromhex(SECOND)).hexdigest()
    listed = [UploadedPart(1, f'"{FIRST}"'), UploadedPart(7, SECOND.upper())]
    assert completed_etag(listed) == f'"{expected}-2"'


@pytest.mark.parametrize("etag", ["", "0", f'"{FIRST}-1"', "opaque"])
def test_an_etag_that_is_no_md5_shows_nothing(etag: str) -> None:
    assert completed_etag([UploadedPart(1, FIRST), UploadedPart(2, etag)]) == ""


def test_a_list_of_no_parts_makes_no_object() -> None:
    assert completed_etag([]) == ""
