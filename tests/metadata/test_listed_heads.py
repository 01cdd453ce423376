"""What an entry of a listing proves of a cached head."""

import pytest

from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import Version
from forebay.metadata.listed_heads import MARGIN, describes
from forebay.protocol.xml.listed_page import EntryFacts

MODIFIED = 1_767_323_045  # 2026-01-02T03:04:05Z
ENTRY = EntryFacts("2026-01-02T03:04:05.000Z", '"ab"', 7)


def head(validated: float = MODIFIED + MARGIN, modified: str = "Fri, 02 Jan 2026 03:04:05 GMT") -> Head:
    return head_of(ObjectFacts(Version('"ab"'), 7, modified, ()), 1 << 20, validated)


def test_the_same_etag_size_and_second_prove_the_version() -> None:
    assert describes(ENTRY, head())
    assert describes(ENTRY._replace(last_modified="2026-01-02T03:04:05Z"), head())
    assert describes(ENTRY._replace(last_modified="2026-01-02T03:04:05.678Z"), head())


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY._replace(etag='"AB"'),
        ENTRY._replace(etag="ab"),
        ENTRY._replace(size=8),
        ENTRY._replace(last_modified="2026-01-02T03:04:06.000Z"),
        ENTRY._replace(last_modified="2026-01-02"),
        ENTRY._replace(last_modified=""),
    ],
)
def test_anything_else_proves_nothing(entry: EntryFacts) -> None:
    assert not describes(entry, head())


def test_a_head_validated_soon_after_the_write_is_not_proven() -> None:
    assert not describes(ENTRY, head(MODIFIED + MARGIN - 1))


def test_a_head_without_a_time_is_not_proven() -> None:
    assert not describes(ENTRY, head(modified=""))
