"""A page of numbers: the reads that it was made of, once its names are found; damaged ones are refused."""

from array import array

import pytest

from forebay.core.errors import MalformedRecording
from forebay.protocol.recordings.numbered_page import NumberedSection, decode_numbered, encode_numbered
from forebay.protocol.recordings.read_columns import ReadColumns
from harness.loader_orders import whole_reads

NAMES = {b"12345678": ReadColumns.of(whole_reads(["a", "b", "c"])), b"87654321": ReadColumns.of(whole_reads(["x"], 7))}
PAGE = encode_numbered(
    5, [NumberedSection(b"12345678", array("I", [2, 0, 2])), NumberedSection(b"87654321", array("I", [0]))]
)


def test_numbers_become_the_reads_that_they_stand_for() -> None:
    page = decode_numbered(PAGE, NAMES.__getitem__)
    assert page.seconds == 5
    assert page.reads == (*whole_reads(["c", "a", "c"]), *whole_reads(["x"], 7))
    assert len(PAGE) == 6 + 2 * 12 + 4 * 4


@pytest.mark.parametrize(
    "raw",
    [b"", PAGE[:20], PAGE[:-1], PAGE + b"!", encode_numbered(0, []), PAGE[:-4] + b"\1\0\0\0"],
    ids=["empty", "sections cut", "numbers cut", "longer", "no reads", "no such name"],
)
def test_a_damaged_page_of_numbers_is_refused(raw: bytes) -> None:
    with pytest.raises(MalformedRecording):
        decode_numbered(raw, NAMES.__getitem__)
