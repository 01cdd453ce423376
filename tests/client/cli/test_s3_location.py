import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay_client.cli.s3_location import InvalidLocation, Location, parse_location


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("s3://b", Location("b", "")),
        ("s3://b/", Location("b", "")),
        ("s3://b/p", Location("b", "p")),
        ("oss://b/p", Location("b", "p")),
        ("s3://b//p/", Location("b", "/p/")),
        ("s3://b/a%2Fb?c#d e", Location("b", "a%2Fb?c#d e")),
    ],
)
def test_location_is_bucket_and_prefix(text: str, location: Location) -> None:
    assert parse_location(text) == location


@pytest.mark.parametrize("text", ["", "b/p", "s3:/b", "s3://", "s3:///p", "S3://b", "oss:/b/p", "http://b"])
def test_malformed_locations_are_rejected(text: str) -> None:
    with pytest.raises(InvalidLocation, match="s3://bucket/prefix"):
        parse_location(text)


@given(st.from_regex(r"[a-z0-9.-]+", fullmatch=True), st.text())
def test_location_round_trip(bucket: str, prefix: str) -> None:
    assert parse_location(str(Location(bucket, prefix))) == Location(bucket, prefix)
