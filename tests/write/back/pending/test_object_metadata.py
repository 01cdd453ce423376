"""Which headers of a write are the object's own, and when two objects have the same."""

import pytest

from forebay.write.back.pending.object_metadata import has_same_metadata, metadata_in

OWN = (("Content-Type", "text/plain"), ("x-amz-meta-step", "7"))


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("Content-Type", True),
        ("X-Amz-Meta-Step", True),
        ("Expires", True),
        ("x-amz-checksum-crc32", False),
        ("x-amz-checksum-mode", False),
        ("Content-MD5", False),
        ("x-amz-date", False),
    ],
)
def test_a_header_is_the_objects_own(name: str, *, is_own: bool) -> None:
    assert metadata_in(((name, "x"),)) == (((name, "x"),) if is_own else ())


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (OWN[::-1], True),
        ((("content-type", " text/plain "), ("X-AMZ-META-STEP", "7")), True),
        ((*OWN, ("ETag", "x"), ("x-amz-checksum-crc32", "AAAAAA==")), True),
        (OWN[:1], False),
        ((*OWN, ("x-amz-meta-other", "")), False),
        ((OWN[0], ("x-amz-meta-step", "8")), False),
        ((*OWN, OWN[1]), False),
    ],
)
def test_metadata_is_compared(other: tuple[tuple[str, str], ...], *, is_same: bool) -> None:
    assert has_same_metadata(OWN, other) == has_same_metadata(other, OWN) == is_same
