"""Regions of buckets: what is believed of a refusal, and how many are remembered."""

import pytest
from multidict import CIMultiDict

from forebay.origin.bucket_regions import CAPACITY, BucketRegions

MALFORMED = b"<Error><Code>AuthorizationHeaderMalformed</Code><Region>%s</Region></Error>"


def headers(region: str | None) -> CIMultiDict[str]:
    pairs = [("Location", "https://evil.test/")]
    return CIMultiDict(pairs if region is None else [*pairs, ("x-amz-bucket-region", region)])


def test_the_header_and_the_document_name_the_region() -> None:
    regions = BucketRegions("us-east-1")
    assert regions.learn("a", headers("eu-west-1"), b"")
    assert regions.learn("b", headers(None), MALFORMED % b"ap-southeast-2")
    assert [regions.of(name) for name in ("a", "b", "c", None)] == [
        "eu-west-1",
        "ap-southeast-2",
        "us-east-1",
        "us-east-1",
    ]


def test_what_is_known_is_no_news() -> None:
    regions = BucketRegions("us-east-1")
    assert not regions.learn("a", headers("us-east-1"), b"")
    assert regions.learn("a", headers("eu-west-1"), b"")
    assert not regions.learn("a", headers("eu-west-1"), b"")
    assert regions.learn("a", headers("us-east-1"), b"")  # it was made anew


@pytest.mark.parametrize(
    "region", ["", "evil.test", "eu-west-1.evil.test", "eu-west-1/", "eu-west-1@evil", "EU-WEST-1", "eu", "x" * 64]
)
def test_no_region_is_believed_that_is_none(region: str) -> None:
    regions = BucketRegions("us-east-1")
    assert not regions.learn("a", headers(region), b"")
    assert regions.of("a") == "us-east-1"


@pytest.mark.parametrize(
    "document",
    [b"", b"<Error><Code>PermanentRedirect</Code><Endpoint>evil.test</Endpoint></Error>", MALFORMED % b"x y"],
)
def test_other_documents_say_nothing(document: bytes) -> None:
    assert not BucketRegions("us-east-1").learn("a", headers(None), document)


def test_the_table_is_bounded() -> None:
    regions = BucketRegions("us-east-1")
    for number in range(CAPACITY + 10):
        regions.learn(f"b{number}", headers("eu-west-1"), b"")
    assert len(regions) == CAPACITY
    assert (regions.of("b0"), regions.of(f"b{CAPACITY}")) == ("us-east-1", "eu-west-1")
