"""GetObject and HeadObject: ranges, overrides, metadata, what isn't there."""

import pytest

from harness.conformance import Subject, code
from harness.quirks import Quirk

BODY = bytes(range(100))


@pytest.mark.parametrize(
    ("header", "first", "last"),
    [
        ("bytes=0-0", 0, 0),
        ("bytes=0-9", 0, 9),
        ("bytes=10-", 10, 99),
        ("bytes=99-99", 99, 99),
        ("bytes=90-1000", 90, 99),
        ("bytes=0-", 0, 99),
        ("bytes=0-99", 0, 99),
        ("bytes=-1", 99, 99),
        ("bytes=-10", 90, 99),
        ("bytes=-1000", 0, 99),
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_range_is_served(origin: Subject, method: str, header: str, first: int, last: int) -> None:
    kept = await origin.put(BODY)
    answer = await origin.ask(method, kept.key, [("Range", header)])
    assert answer.status == 206
    assert answer.headers["Content-Range"] == f"bytes {first}-{last}/100"
    assert answer.headers["Content-Length"] == str(last - first + 1)
    assert answer.headers["ETag"] == kept.etag
    assert answer.body == (BODY[first : last + 1] if method == "GET" else b"")


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=100-200", "bytes=1000-2000", "bytes=-0"])
async def test_a_range_beyond_the_end_is_refused(origin: Subject, header: str) -> None:
    kept = await origin.put(BODY)
    answer = await origin.get(kept.key, ("Range", header))
    assert answer.status == 416
    assert code(answer) == "InvalidRange"
    assert (await origin.ask("HEAD", kept.key, [("Range", header)])).status == 416


@pytest.mark.parametrize("header", ["bytes=5-2", "bytes=a-b", "lines=0-9", "bytes 0-9", "bytes=-", "bytes="])
async def test_invalid_range_is_ignored(origin: Subject, header: str) -> None:
    kept = await origin.put(BODY)
    answer = await origin.get(kept.key, ("Range", header))
    assert (answer.status, answer.body) == (200, BODY)


async def test_several_ranges(origin: Subject) -> None:
    kept = await origin.put(BODY)
    answer = await origin.get(kept.key, ("Range", "bytes=0-1,10-11"))
    if origin.has(Quirk.SERVES_SEVERAL_RANGES):
        assert answer.status == 206
        assert answer.headers["Content-Type"].startswith("multipart/byteranges")
    else:
        assert (answer.status, answer.body) == (200, BODY)


@pytest.mark.parametrize("header", ["bytes=0-", "bytes=0-0", "bytes=-1"])
async def test_an_empty_object_has_no_ranges(origin: Subject, header: str) -> None:
    kept = await origin.put(b"")
    answer = await origin.get(kept.key, ("Range", header))
    quirky = origin.has(Quirk.SUFFIX_OF_AN_EMPTY_OBJECT) and header.startswith("bytes=-")
    assert answer.status == (200 if quirky else 416)


async def test_an_empty_object(origin: Subject) -> None:
    kept = await origin.put(b"")
    answer = await origin.get(kept.key)
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "0")
    assert kept.etag == origin.etag('"d41d8cd98f00b204e9800998ecf8427e"')


async def test_head_is_get_without_a_body(origin: Subject) -> None:
    kept = await origin.put(BODY)
    got, head = await origin.get(kept.key), await origin.ask("HEAD", kept.key)
    assert (got.status, got.body, head.status, head.body) == (200, BODY, 200, b"")
    for name in ("ETag", "Last-Modified", "Content-Length", "Content-Type"):
        assert got.headers[name] == head.headers[name]


async def test_headers_come_back(origin: Subject) -> None:
    sent = (
        ("Content-Type", "text/x-odd; charset=utf-8"),
        ("Content-Encoding", "gzip"),
        ("Content-Disposition", 'attachment; filename="x.txt"'),
        ("Cache-Control", "max-age=5"),
        ("Expires", "Wed, 21 Oct 2015 07:28:00 GMT"),
        ("x-amz-meta-colour", "blue"),
    )
    kept = await origin.put(BODY, None, *sent)
    for answer in (await origin.get(kept.key), await origin.ask("HEAD", kept.key)):
        assert {name: answer.headers.get(name) for name, _ in sent} == dict(sent)
    assert (await origin.get(kept.key)).body == BODY


async def test_response_overrides_change_headers_and_nothing_else(origin: Subject) -> None:
    kept = await origin.put(BODY, None, ("Content-Type", "text/plain"))
    overrides = {
        "response_content_type": "image/png",
        "response_content_language": "de",
        "response_cache_control": "no-store",
        "response_content_disposition": "inline",
        "response_content_encoding": "br",
        "response_expires": "Wed, 21 Oct 2015 07:28:00 GMT",
    }
    answer = await origin.get(kept.key, **overrides)
    assert (answer.status, answer.body) == (200, BODY)
    for name, value in overrides.items():
        assert answer.headers[name.removeprefix("response_").replace("_", "-")] == value
    assert (await origin.get(kept.key)).headers["Content-Type"] == "text/plain"


async def test_missing_object(origin: Subject) -> None:
    answer = await origin.get("no-such-key")
    assert (answer.status, code(answer)) == (404, "NoSuchKey")
    head = await origin.ask("HEAD", "no-such-key")
    assert (head.status, head.body) == (404, b"")
    elsewhere = await origin.client.request("GET", "/no-such-bucket-here/key")
    assert (elsewhere.status, code(elsewhere)) == (404, "NoSuchBucket")


async def test_last_modified_is_an_http_date(origin: Subject) -> None:
    kept = await origin.put(BODY)
    assert len(kept.modified) == 29
    assert kept.modified.endswith(" GMT")


async def test_part_number_of_an_object_that_was_put_at_once(origin: Subject) -> None:
    kept = await origin.put(BODY)
    answer = await origin.get(kept.key, partNumber="1")
    if origin.has(Quirk.NO_READS_BY_PART):
        assert answer.status == 501
        return
    assert answer.body == BODY
    beyond = await origin.get(kept.key, partNumber="2")
    assert beyond.status == 416


async def test_two_requests_on_one_connection(origin: Subject) -> None:
    kept = await origin.put(BODY)
    async with await origin.client.open() as connection:
        for _ in range(2):
            answer = await origin.client.request("GET", origin.target(kept.key), connection=connection)
            assert (answer.status, answer.body) == (200, BODY)
