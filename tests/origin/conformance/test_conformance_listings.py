"""ListObjects, ListObjectsV2, buckets."""

from collections.abc import AsyncIterator
from urllib.parse import unquote
from uuid import uuid4

import pytest

from harness.conformance import Subject, code, texts
from harness.quirks import Quirk

KEYS = ["a", "b/1", "b/2", "b/c/3", "d e", "d+e", "ä", "z"]


@pytest.fixture
async def listed(origin: Subject) -> AsyncIterator[Subject]:
    """A bucket of its own with KEYS, removed afterwards."""
    home = Subject(origin.endpoint, origin.secret, f"listed-{uuid4().hex[:12]}", origin.quirks)
    assert (await home.ask("PUT")).status == 200
    for key in KEYS:
        assert (await home.ask("PUT", key, (), key.encode())).status == 200
    yield home
    for key in KEYS:
        await home.ask("DELETE", key)
    assert (await home.ask("DELETE")).status == 204


async def test_a_whole_listing(listed: Subject) -> None:
    for query in ({}, {"list_type": "2"}):
        answer = await listed.ask("GET", None, **query)
        assert answer.status == 200
        assert texts(answer, "Contents/Key") == sorted(KEYS)
        assert texts(answer, "IsTruncated") == ["false"]
        assert texts(answer, "Contents/Size") == [str(len(key.encode())) for key in sorted(KEYS)]
        etag = (await listed.ask("HEAD", "a")).headers["ETag"]
        assert texts(answer, "Contents/ETag")[0] == etag
    assert texts(answer, "KeyCount") == [str(len(KEYS))]


async def test_prefix_and_delimiter(listed: Subject) -> None:
    for query in ({}, {"list_type": "2"}):
        top = await listed.ask("GET", None, delimiter="/", **query)
        assert texts(top, "Contents/Key") == sorted(key for key in KEYS if "/" not in key)
        assert texts(top, "CommonPrefixes/Prefix") == ["b/"]
        below = await listed.ask("GET", None, prefix="b/", delimiter="/", **query)
        assert texts(below, "Contents/Key") == ["b/1", "b/2"]
        assert texts(below, "CommonPrefixes/Prefix") == ["b/c/"]
        assert texts(await listed.ask("GET", None, prefix="nothing", **query), "Contents/Key") == []


@pytest.mark.parametrize("delimiter", ["", "/"])
async def test_version_2_goes_on_where_it_stopped(listed: Subject, delimiter: str) -> None:
    found: list[str] = []
    query = {"list_type": "2", "max_keys": "2", **({"delimiter": delimiter} if delimiter else {})}
    while True:
        answer = await listed.ask("GET", None, **query)
        shown = texts(answer, "Contents/Key") + texts(answer, "CommonPrefixes/Prefix")
        assert 0 < len(shown) <= 2
        assert texts(answer, "KeyCount") == [str(len(shown))]
        found += shown
        if texts(answer, "IsTruncated") == ["false"]:
            break
        query["continuation_token"] = texts(answer, "NextContinuationToken")[0]
    expected = [key for key in KEYS if "/" not in key] + ["b/"] if delimiter else KEYS
    assert sorted(found) == sorted(expected)


async def test_version_1_goes_on_where_it_stopped(listed: Subject) -> None:
    found: list[str] = []
    query = {"max_keys": "3"}
    while True:
        answer = await listed.ask("GET", None, **query)
        found += texts(answer, "Contents/Key")
        if texts(answer, "IsTruncated") == ["false"]:
            break
        query["marker"] = found[-1]
    assert found == sorted(KEYS)


async def test_next_marker_comes_with_a_delimiter(listed: Subject) -> None:
    answer = await listed.ask("GET", None, delimiter="/", max_keys="2")
    assert (texts(answer, "IsTruncated"), texts(answer, "NextMarker")) == (["true"], ["b/"])
    rest = await listed.ask("GET", None, delimiter="/", marker="b/")
    assert texts(rest, "Contents/Key") == ["d e", "d+e", "z", "ä"]
    assert texts(rest, "CommonPrefixes/Prefix") == []


async def test_start_after(listed: Subject) -> None:
    answer = await listed.ask("GET", None, list_type="2", start_after="b/c/3")
    assert texts(answer, "Contents/Key") == ["d e", "d+e", "z", "ä"]


async def test_encoding_type_url(listed: Subject) -> None:
    answer = await listed.ask("GET", None, list_type="2", encoding_type="url", prefix="d")
    assert texts(answer, "EncodingType") == ["url"]
    assert [unquote(each) for each in texts(answer, "Contents/Key")] == ["d e", "d+e"]
    assert "d%2Be" in texts(answer, "Contents/Key")
    umlaut = await listed.ask("GET", None, encoding_type="url", prefix="ä")
    assert texts(umlaut, "Contents/Key") == ["%C3%A4"]


async def test_max_keys(listed: Subject) -> None:
    none = await listed.ask("GET", None, list_type="2", max_keys="0")
    assert (texts(none, "Contents/Key"), texts(none, "IsTruncated")) == ([], ["false"])
    wrong = await listed.ask("GET", None, list_type="2", max_keys="x")
    assert (wrong.status, code(wrong)) == (400, "InvalidArgument")


async def test_owners_only_if_requested(listed: Subject) -> None:
    plain = await listed.ask("GET", None, list_type="2")
    assert texts(plain, "Contents/Owner/ID") == []
    owned = await listed.ask("GET", None, list_type="2", fetch_owner="true")
    assert len(texts(owned, "Contents/Owner/ID")) == len(KEYS)


async def test_buckets(listed: Subject) -> None:
    answer = await listed.client.request("GET", "/")
    assert listed.bucket in texts(answer, "Buckets/Bucket/Name")
    assert (await listed.ask("HEAD")).status == 200
    assert (await listed.client.request("HEAD", "/no-such-bucket-here")).status == 404
    again = await listed.ask("PUT")
    assert (again.status, code(again)) == (409, "BucketAlreadyOwnedByYou")
    full = await listed.ask("DELETE")
    assert (full.status, code(full)) == (409, "BucketNotEmpty")
    absent = await listed.client.request("GET", "/no-such-bucket-here")
    assert (absent.status, code(absent)) == (404, "NoSuchBucket")
    location = texts(await listed.ask("GET", None, location=""), ".")
    assert location == (["test-1"] if listed.has(Quirk.LOCATION_IS_TOLD) else [""])
