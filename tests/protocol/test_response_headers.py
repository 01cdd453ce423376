"""The facts that are read from an origin's response, and the headers that are written from them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.byte_ranges import Span
from forebay.core.heads import ObjectFacts
from forebay.core.names import Version
from forebay.protocol.response_headers import (
    agrees,
    checksum_headers,
    checksums_missing,
    facts_from,
    not_modified_headers,
    parse_content_range,
    partial_headers,
    repeated_facts,
    requests_checksums,
    unsatisfiable_headers,
    whole_headers,
)

ETAG = '"9b2cf535f27731c974343645a3985328"'
MODIFIED = "Tue, 10 Nov 2026 10:00:00 GMT"
OWN = (
    ("Content-Type", "image/png"),
    ("content-encoding", "gzip"),
    ("Content-Language", "en"),
    ("Content-Disposition", "inline"),
    ("Cache-Control", "max-age=60"),
    ("Expires", MODIFIED),
    ("x-amz-meta-Colour", "blue"),
    ("x-amz-storage-class", "STANDARD_IA"),
    ("x-amz-server-side-encryption", "AES256"),
    ("x-amz-tagging-count", "2"),
    ("x-amz-website-redirect-location", "/other"),
)
FOREIGN = (
    ("Date", MODIFIED),
    ("Server", "AmazonS3"),
    ("Connection", "close"),
    ("Accept-Ranges", "bytes"),
    ("Set-Cookie", "a=b"),
    ("Vary", "Origin"),
    ("Access-Control-Allow-Origin", "*"),
    ("x-amz-request-id", "1"),
    ("x-amz-id-2", "2"),
    ("x-amz-mp-parts-count", "3"),
    ("x-amz-request-charged", "requester"),
    ("x-amz-replication-status", "PENDING"),
    ("X-Amz-Bucket-Region", "eu-west-1"),
    ("x-openstack-request-id", "3"),
    ("Anything-New", "4"),
)
BASE = (("ETag", ETAG), ("Last-Modified", MODIFIED))


def facts(status: int, *pairs: tuple[str, str], base: tuple[tuple[str, str], ...] = BASE) -> ObjectFacts | None:
    return facts_from(status, CIMultiDict((*base, *pairs)))


WHOLE = ObjectFacts(Version(ETAG, "v1"), 100, MODIFIED, OWN)


def test_facts_contain_only_the_objects_own_headers() -> None:
    pairs = (*OWN, *FOREIGN, ("Content-Length", "100"), ("x-amz-version-id", "v1"))
    assert facts(200, *pairs) == WHOLE


def test_range_response_has_the_facts_of_the_whole_object() -> None:
    pairs = (*OWN, *FOREIGN, ("Content-Length", "10"), ("Content-Range", "bytes 90-99/100"), ("x-amz-version-id", "v1"))
    assert facts(206, *pairs) == WHOLE


CHECKSUMS = (("x-amz-checksum-crc32", "AAAAAA=="), ("X-Amz-Checksum-Type", "FULL_OBJECT"))


@pytest.mark.parametrize(
    ("status", "pairs", "etag", "kept"),
    [
        (200, (("Content-Length", "9"),), '"a"', True),
        (200, (("Content-Length", "9"),), '"a-2"', True),
        (206, (("Content-Length", "9"), ("Content-Range", "bytes 0-8/9")), '"a"', True),
        # The only part is the whole object: the checksum may be that of the part.
        (206, (("Content-Length", "9"), ("Content-Range", "bytes 0-8/9")), '"a-1"', False),
        (206, (("Content-Length", "8"), ("Content-Range", "bytes 0-7/9")), '"a"', False),
    ],
)
def test_checksums_are_read_from_whole_responses_only(
    status: int, pairs: tuple[tuple[str, str], ...], etag: str, kept: bool
) -> None:
    found = facts(status, *pairs, *CHECKSUMS, base=(("ETag", etag),))
    assert found is not None
    assert (found.checksums_known, checksums_missing(found)) == (kept, not kept)


@pytest.mark.parametrize(
    ("headers", "known", "missing"), [((), False, True), ((), True, False), (CHECKSUMS, False, False)]
)
def test_checksums_are_missing_where_none_is_known(
    headers: tuple[tuple[str, str], ...], known: bool, missing: bool
) -> None:
    facts = ObjectFacts(Version(ETAG), 9, "", (*OWN, *headers), known)
    assert (checksum_headers(facts), checksums_missing(facts)) == (headers, missing)


def test_a_304_repeats_what_caches_need_and_metadata() -> None:
    repeated = repeated_facts(CIMultiDict((*BASE, *OWN, *FOREIGN, ("X-Amz-Version-Id", "v1"))))
    assert repeated == (
        ("cache-control", "max-age=60"),
        ("expires", MODIFIED),
        ("x-amz-meta-colour", "blue"),
        ("x-amz-version-id", "v1"),
    )
    assert agrees(WHOLE, repeated)
    assert agrees(WHOLE, ())
    for name, _ in repeated:
        assert not agrees(WHOLE, ((name, "another"),))
    assert not agrees(WHOLE, (*repeated, ("x-amz-meta-new", "")))


def test_checksums_are_sent_with_the_whole_on_request_only() -> None:
    known = ObjectFacts(Version(ETAG), 9, "", CHECKSUMS)
    assert whole_headers(known, checksums=True)[:2] == CHECKSUMS
    for fields in (whole_headers(known), partial_headers(known, Span(0, 9)), not_modified_headers(known)):
        assert not [name for name, _ in fields if "checksum" in name.lower()]
    assert requests_checksums(CIMultiDict({"X-Amz-Checksum-Mode": "enabled"}))
    assert not requests_checksums(CIMultiDict({"x-amz-checksum-mode": "x"}))


def test_empty_object_without_a_date_has_facts() -> None:
    assert facts(200, ("Content-Length", "0"), base=(("ETag", ETAG),)) == ObjectFacts(Version(ETAG), 0, "", ())


@pytest.mark.parametrize(
    "etag", [None, "", '""', f"W/{ETAG}", ETAG.strip('"'), '"', '"a"b"', f"{ETAG}, {ETAG}", '"a b"']
)
def test_no_facts_without_a_strong_etag(etag: str | None) -> None:
    base = () if etag is None else (("ETag", etag),)
    assert facts(200, ("Content-Length", "1"), base=base) is None


def test_no_facts_from_repeated_etag_or_length() -> None:
    assert facts(200, ("Content-Length", "1"), ("ETag", '"b"')) is None
    assert facts(200, ("Content-Length", "1"), ("Content-Length", "1")) is None


@pytest.mark.parametrize("length", ["", "-1", "+1", "1_0", "0x1", "٣", "1.0", "1" * 30])
def test_no_facts_without_a_valid_size(length: str) -> None:
    assert facts(200) is None
    assert facts(200, ("Content-Length", length)) is None


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("Content-Range", "bytes 0-9/*")],
        [("Content-Range", "bytes */100")],
        [("Content-Range", "bytes 0-10/100")],
        [("Content-Range", "bytes 95-104/100")],
        [("Content-Range", "items 0-9/100")],
        [("Content-Range", "bytes 0-9/100"), ("Content-Range", "bytes 0-9/100")],
        [("Content-Range", "bytes 0-9/100"), ("Content-Type", "multipart/byteranges; boundary=x")],
        [("Content-Range", "bytes 0-9/100"), ("Transfer-Encoding", "chunked")],
    ],
)
def test_no_facts_from_an_inconsistent_range(pairs: list[tuple[str, str]]) -> None:
    assert facts(206, ("Content-Length", "10"), *pairs) is None


def test_no_facts_if_length_and_range_contradict_the_status() -> None:
    assert facts(206, ("Content-Range", "bytes 0-9/100")) is None
    assert facts(200, ("Content-Range", "bytes 0-9/10"), ("Content-Length", "10")) is None


@pytest.mark.parametrize("status", [201, 203, 204, 304, 404, 412, 416, 500])
def test_no_facts_from_another_status(status: int) -> None:
    assert facts(status, ("Content-Length", "10"), ("Content-Range", "bytes 0-9/100")) is None
    assert facts(status, ("Content-Length", "10")) is None


@pytest.mark.parametrize(
    "pair",
    [
        ("x-amz-restore", 'ongoing-request="false"'),
        ("x-amz-archive-status", "ARCHIVE_ACCESS"),
        ("x-amz-storage-class", "GLACIER"),
        ("X-Amz-Storage-Class", "DEEP_ARCHIVE"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("x-oss-object-type", "Appendable"),
        ("X-OSS-Object-Type", "Symlink"),
    ],
)
def test_no_facts_of_what_only_the_origin_can_answer_for(pair: tuple[str, str]) -> None:
    assert facts(200, ("Content-Length", "10"), pair) is None


def test_headers_of_a_whole_response() -> None:
    assert whole_headers(WHOLE) == (
        *OWN,
        ("ETag", ETAG),
        ("Last-Modified", MODIFIED),
        ("x-amz-version-id", "v1"),
        ("Accept-Ranges", "bytes"),
        ("Content-Length", "100"),
    )
    bare = ObjectFacts(Version(ETAG), 0, "", ())
    assert whole_headers(bare) == (("ETag", ETAG), ("Accept-Ranges", "bytes"), ("Content-Length", "0"))


@given(st.integers(1, 10**12).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1))), st.data())
def test_written_headers_parse_to_the_same_facts(at: tuple[int, int], data: st.DataObject) -> None:
    size, start = at
    stop = data.draw(st.integers(start + 1, size))
    known = ObjectFacts(Version(ETAG, "v1"), size, MODIFIED, OWN)
    assert facts_from(200, CIMultiDict(whole_headers(known))) == known
    headers = CIMultiDict(partial_headers(known, Span(start, stop)))
    assert facts_from(206, headers) == known
    assert parse_content_range(headers["Content-Range"]) == (Span(start, stop), size)
    assert headers["Content-Length"] == str(stop - start)


def test_not_modified_names_version_and_guides_caches() -> None:
    guides = ("Cache-Control", "max-age=60"), ("Expires", MODIFIED)
    named = ("ETag", ETAG), ("Last-Modified", MODIFIED), ("x-amz-version-id", "v1"), ("Accept-Ranges", "bytes")
    assert not_modified_headers(WHOLE) == (*guides, *named)


def test_unsatisfiable_headers_contain_the_size() -> None:
    assert unsatisfiable_headers(7) == (("Content-Range", "bytes */7"), ("Accept-Ranges", "bytes"))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "bytes",
        "bytes 0-9",
        "bytes 9-0/100",
        "bytes 0-100/100",
        "bytes -9/10",
        "bytes 0-/10",
        "bytes 0-9/10 x",
        "0-9/10",
        "bytes=0-9/10",
        "bytes 0-9/1" + "0" * 40,
    ],
)
def test_invalid_content_ranges_are_rejected(value: str) -> None:
    assert parse_content_range(value) is None
