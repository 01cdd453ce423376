"""The checksums of parts of unfinished uploads to an OSS origin."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.cooperative import run_to_completion
from forebay.origin.oss_adapter import PartCrc64, PartCrc64Table
from forebay.protocol.body.crc64 import crc64

UPLOAD = ("bucket", "key", "id")


def part(body: bytes) -> PartCrc64:
    return PartCrc64(f'"{body.hex().upper()}"', crc64(body), len(body))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=6), st.data())
def test_part_checksums_combine_in_any_order_of_upload(bodies: list[bytes], drawn: st.DataObject) -> None:
    sums, numbered = PartCrc64Table(), list(enumerate(bodies, 1))
    for number, body in drawn.draw(st.permutations(numbered)):
        sums.add(UPLOAD, number, part(body))
    assert run_to_completion(sums.combined(UPLOAD, [(number, body.hex()) for number, body in numbered])) == crc64(
        b"".join(bodies)
    )
    assert len(sums) == 0


def test_a_part_replaced_elsewhere_has_no_checksum() -> None:
    sums = PartCrc64Table()
    sums.add(UPLOAD, 1, part(b"first"))
    assert run_to_completion(sums.combined(UPLOAD, [(1, b"other".hex())])) is None


def test_a_part_uploaded_again_replaces_the_first() -> None:
    sums = PartCrc64Table()
    sums.add(UPLOAD, 1, part(b"first"))
    sums.add(UPLOAD, 1, part(b"again"))
    assert run_to_completion(sums.combined(UPLOAD, [(1, b"again".hex())])) == crc64(b"again")


def test_a_part_uploaded_elsewhere_leaves_no_checksum() -> None:
    sums = PartCrc64Table()
    sums.add(UPLOAD, 1, part(b"first"))
    assert run_to_completion(sums.combined(UPLOAD, [(1, b"first".hex()), (2, "AB")])) is None
    assert run_to_completion(sums.combined(UPLOAD, [(1, b"first".hex())])) is None


def test_the_upload_idle_longest_is_forgotten() -> None:
    sums = PartCrc64Table(remembered=2)
    for number in range(3):
        sums.add(("bucket", "key", str(number)), 1, part(b"x"))
    assert len(sums) == 2
    assert run_to_completion(sums.combined(("bucket", "key", "0"), [(1, b"x".hex())])) is None
    assert run_to_completion(sums.combined(("bucket", "key", "2"), [(1, b"x".hex())])) == crc64(b"x")
