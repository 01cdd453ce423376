"""A client's listing as a query, and tokens."""

from collections.abc import Mapping
from typing import Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.protocol.listing_query import (
    LAST_CHARACTER,
    ListingQuery,
    StartPoint,
    parse_listing,
    parse_token,
    without_own_token,
)
from forebay.protocol.target import Target

_VERSIONED: Final[Mapping[int, tuple[tuple[str, str], ...]]] = {1: (), 2: (("list-type", "2"),)}


def query_of(
    parameters: Mapping[str, str], version: Literal[1, 2] = 2, headers: Mapping[str, str] | None = None
) -> ListingQuery | None:
    target = Target("/bucket", "", "bucket", None, (*parameters.items(), *_VERSIONED[version]))
    return parse_listing(target, CIMultiDictProxy(CIMultiDict(headers or {})), version)


def test_a_whole_query() -> None:
    query = query_of({"prefix": "a/", "delimiter": "/", "start-after": "a/b", "max-keys": "7", "encoding-type": "url"})
    assert query == ListingQuery(
        2, "bucket", "a/", "/", StartPoint("a/b"), 7, is_encoded=True, has_owner=False, start_after="a/b"
    )


@pytest.mark.parametrize(
    ("parameters", "version"),
    [
        ({"max-keys": "x"}, 2),
        ({"max-keys": ""}, 2),
        ({"max-keys": "-1"}, 1),
        ({"encoding-type": "base64"}, 2),
        ({"fetch-owner": "1"}, 2),
        ({"delimiter": ""}, 1),
        ({"start-after": "a"}, 1),
        ({"list-type": "3"}, 1),
        ({"marker": "a"}, 2),
        ({"continuation-token": "b3JpZ2lu"}, 2),
        ({"continuation-token": ""}, 2),
        ({"delimiter": "/", "start-after": "a/b"}, 2),
        ({"delimiter": "/", "start-after": "a/"}, 2),
        ({"delimiter": "/", "marker": "a/b"}, 1),
        ({"allow-unordered": "true"}, 1),
    ],
)
def test_what_origins_read_differently_is_passed_on(parameters: dict[str, str], version: Literal[1, 2]) -> None:
    assert query_of(parameters, version) is None


def test_headers_that_change_a_listing_pass_it_on() -> None:
    assert query_of({}, headers={"x-amz-optional-object-attributes": "RestoreStatus, Other"}) is None
    assert query_of({}, headers={"x-amz-expected-bucket-owner": "1"}) is None
    assert query_of({}, headers={"x-amz-date": "now", "x-amz-content-sha256": "e3"}) is not None


def test_the_restore_status_is_noted() -> None:
    query = query_of({}, headers={"X-Amz-Optional-Object-Attributes": "RestoreStatus"})
    assert query is not None
    assert query.has_restore_status


@pytest.mark.parametrize(
    ("parameters", "version", "start"),
    [
        ({"delimiter": ""}, 1, StartPoint()),
        ({"delimiter": "/", "start-after": "a/b"}, 2, StartPoint("a/b")),
        ({"delimiter": "/", "start-after": "a/"}, 2, StartPoint("a/", "prefix")),
        ({"delimiter": "/", "marker": "a/b/"}, 1, StartPoint("a/b/")),
        ({"delimiter": "/", "marker": "a/b"}, 1, StartPoint("a/b")),
    ],
)
def test_what_origins_read_differently_has_s3s_meaning(
    parameters: dict[str, str], version: Literal[1, 2], start: StartPoint
) -> None:
    target = Target("/bucket", "", "bucket", None, (*parameters.items(), *_VERSIONED[version]))
    query = parse_listing(target, CIMultiDictProxy(CIMultiDict({"x-amz-any": "1"})), version, as_s3=True)
    assert query is not None
    assert (query.start, query.delimiter) == (start, parameters["delimiter"])


def test_a_marker_that_is_a_common_prefix_goes_on_behind_it() -> None:
    query = query_of({"delimiter": "/", "marker": "a/"}, 1)
    assert query is not None
    assert query.start == StartPoint("a/", "prefix")
    below = query_of({"delimiter": "/", "prefix": "a/", "marker": "a/"}, 1)
    assert below is not None
    assert below.start == StartPoint("a/")


@given(name=st.text(st.characters(codec="utf-8"), max_size=20), kind=st.sampled_from(["key", "prefix"]))
def test_a_token_names_its_point(name: str, kind: Literal["key", "prefix"]) -> None:
    point = StartPoint(name, kind)
    assert parse_token(point.token()) == point


@given(token=st.text(max_size=40) | st.from_regex(r"~fb1[kp][A-Za-z0-9_=-]*\.[0-9a-f]{8}", fullmatch=True))
def test_no_other_token_is_a_point(token: str) -> None:
    point = parse_token(token)
    assert point is None or point.token() == token


def test_the_origin_gets_a_key_in_place_of_our_token() -> None:
    def forwarded(point: StartPoint) -> dict[str, str]:
        query = (("list-type", "2"), ("continuation-token", point.token()), ("start-after", "old"))
        target = without_own_token(Target("/bucket", "", "bucket", None, query))
        assert target is not None
        return dict(target.query)

    assert forwarded(StartPoint("a/b")) == {"list-type": "2", "start-after": "a/b"}
    assert forwarded(StartPoint("a/", "prefix")) == {"list-type": "2", "start-after": "a/" + LAST_CHARACTER}
    foreign = Target("/bucket", "", "bucket", None, (("continuation-token", "b3JpZ2lu"),))
    assert without_own_token(foreign) is None
