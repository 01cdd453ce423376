"""Listings of resources: prefixes, delimiters and pages, as boto3 and OSS's SDKs read them."""

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from forebay.core.errors import S3Error
from forebay.protocol.target import parse_target
from forebay.request.resource import ResourceEntry
from forebay.request.resource_listing import resource_listing

KEYS = (".forebay/plans/a", ".forebay/plans/keys/1f", ".forebay/plans/keys/2f", ".forebay/recordings/ü & x")
ENTRIES = [ResourceEntry(key, 5, 1_800_000_000.0) for key in reversed(KEYS)]


def listing(**parameters: str) -> str:
    query = "&".join(f"{name.replace('_', '-')}={quote(value)}" for name, value in parameters.items())
    target = parse_target(f"/bucket?{query}", "", ())
    return resource_listing(target, ENTRIES).decode()


def texts(document: str, name: str) -> list[str]:
    return re.findall(f"<{name}>([^<]*)</{name}>", document)


def pages(**parameters: str) -> Iterator[str]:
    """Each page of a listing, as an SDK goes from one to the next."""
    while True:
        document = listing(**parameters)
        yield document
        if texts(document, "IsTruncated") == ["false"]:
            return
        if "list_type" in parameters:
            parameters["continuation_token"] = texts(document, "NextContinuationToken")[0]
        else:
            parameters["marker"] = texts(document, "NextMarker")[0]


@pytest.mark.parametrize("version", [{}, {"list_type": "2"}])
@pytest.mark.parametrize("limit", ["1", "3", "1000", "5000"])
def test_all_pages_together_have_each_key_once(version: dict[str, str], limit: str) -> None:
    documents = list(pages(prefix=".forebay/plans/", max_keys=limit, **version))
    assert [key for document in documents for key in texts(document, "Key")] == list(KEYS[:3])
    assert len(documents) == (3 if limit == "1" else 1)


@pytest.mark.parametrize("version", [{}, {"list_type": "2"}])
def test_a_delimiter_groups_keys(version: dict[str, str]) -> None:
    documents = list(pages(prefix=".forebay/", delimiter="/", max_keys="1", **version))
    assert [texts(document, "Prefix")[1:] for document in documents] == [[".forebay/plans/"], [".forebay/recordings/"]]
    document = listing(prefix=".forebay/plans/", delimiter="/", **version)
    assert (texts(document, "Key"), texts(document, "Prefix")[1:]) == ([KEYS[0]], [".forebay/plans/keys/"])


def test_names_are_encoded_on_request() -> None:
    assert texts(listing(prefix=".forebay/rec"), "Key") == [".forebay/recordings/ü &amp; x"]
    document = listing(prefix=".forebay/rec", encoding_type="url")
    assert texts(document, "Key") == [".forebay/recordings/%C3%BC%20%26%20x"]
    assert texts(document, "EncodingType") == ["url"]


def test_an_entry_has_a_size_and_a_time() -> None:
    document = listing(prefix=".forebay/plans/a", list_type="2")
    assert (texts(document, "Size"), texts(document, "LastModified")) == (["5"], ["2027-01-15T08:00:00.000Z"])
    assert texts(document, "KeyCount") == ["1"]


def test_a_page_begins_behind_its_start() -> None:
    start = {"list_type": "2", "start_after": ".forebay/plans/keys/1f"}
    assert texts(listing(prefix=".forebay/plans/", **start), "Key") == [KEYS[2]]


@pytest.mark.parametrize("parameters", [{"max_keys": "-1"}, {"list_type": "2", "continuation_token": "/w=="}])
def test_what_is_not_understood_is_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(S3Error, match="InvalidArgument"):
        listing(prefix=".forebay/", **parameters)


def test_every_entry_has_an_etag_that_changes_with_it() -> None:
    """oss2 fails at an entry without one."""
    target = parse_target("/bucket?prefix=.forebay%2F", "", ())

    def etags(*entries: ResourceEntry) -> list[str]:
        return texts(resource_listing(target, entries).decode(), "ETag")

    first, later = ResourceEntry(KEYS[0], 5, 1.0), ResourceEntry(KEYS[0], 5, 2.0)
    assert all(re.fullmatch(r'(&quot;|")[0-9a-f]{32}-1(&quot;|")', each) for each in etags(*ENTRIES))
    assert etags(first) == etags(first) != etags(later)
    assert etags(ResourceEntry(KEYS[0], 5, 1.0, '"known"'))[0].replace("&quot;", '"') == '"known"'
