"""Reads, end to end: what a client gets of an object, cold and warm, over a socket."""

import gzip
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status, object_response
from harness.rig import Rig

BLOCK = 64 * 1024
RULES = '[[rules]]\npath = "**"\nblock = "64KiB"\n'
ODD_KEYS = (
    "with space",
    "plus+sign",
    "per%20cent",
    "per%2Fcent",
    "ünïcødé/日本",
    "a//b",
    "/leading",
    "trailing/",
    "question?mark",
    "hash#mark",
    "dot/./dot",
    "dots/../dots",
    "back\\slash",
    "quote'\"<&>",
    "x" * 900,
)


async def test_a_whole_object_cold_then_warm(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content" * 1000)
        for cache in ("miss", "hit-memory"):
            answer = await rig.client().request("GET", path_of("bucket", "key"))
            assert cache_status(answer) == (200, cache)
            assert answer.body == b"content" * 1000
        assert origin.log.count("GET", key="key") == 1


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 17])
async def test_objects_of_all_sizes(tmp_path: Path, size: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", size)
        for _ in range(2):
            answer = await rig.client().request("GET", path_of("bucket", "key"))
            assert (answer.status, answer.headers["Content-Length"]) == (200, str(size))
            assert answer.body == content.expected(Span(0, size))
        assert sum(seen.bytes_sent for seen in origin.log.matching("GET") if seen.status == 206) == size


async def test_object_headers_are_equal_cold_and_warm(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket").versioning = "Enabled"
        packed = gzip.compress(b"content" * 1000)
        origin.store.put(
            "bucket",
            "key",
            packed,
            content_type="text/plain; charset=utf-8",
            content_encoding="gzip",
            content_disposition='attachment; filename="a b.txt"',
            content_language="de",
            cache_control="max-age=3600",
            expires="Thu, 01 Jan 2032 00:00:00 GMT",
            x_amz_meta_colour="blue",
            x_amz_meta_answer="42",
            x_amz_storage_class="STANDARD_IA",
        )
        direct = RawClient(origin.endpoint, origin.secret)
        for method, headers in (
            ("GET", ()),
            ("HEAD", ()),
            ("GET", (("Range", "bytes=10-19"),)),
            ("HEAD", (("Range", "bytes=10-19"),)),
            ("GET", (("Accept-Encoding", "identity"),)),
        ):
            said = object_response(await direct.request(method, path_of("bucket", "key"), headers))
            assert len(said.headers) >= 13
            for _ in range(2):
                assert object_response(await rig.client().request(method, path_of("bucket", "key"), headers)) == said


async def test_the_answer_carries_nothing_of_the_origins_connection(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        for _ in range(2):
            headers = (await rig.client().request("GET", path_of("bucket", "key"))).headers
            assert headers.getall("x-amz-request-id") != ["FAKE"]
            assert len(headers.getall("x-amz-request-id")) == 1
            assert headers["Server"] == "Forebay"
            assert headers.getall("x-amz-id-2") != ["fake"]
            assert len(headers.getall("x-amz-id-2")) == 1


async def test_range_response_has_no_checksum(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content" * 1000)
        for _ in range(2):
            for ask in ((), (("Range", "bytes=0-9"),), (("Range", "bytes=0-6999"),)):
                headers = (("x-amz-checksum-mode", "ENABLED"), *ask)
                answer = await rig.client().request("GET", path_of("bucket", "key"), headers)
                assert answer.body == (b"content" * 1000)[: 10 if len(answer.body) == 10 else None]
                if answer.status == 206:
                    assert not any(name.lower().startswith("x-amz-checksum-") for name, _ in answer.pairs)


async def test_head_then_get(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        head = await rig.client().request("HEAD", path_of("bucket", "key"))
        assert (cache_status(head), head.headers["Content-Length"], head.body) == ((200, "miss"), "7", b"")
        assert origin.log.bytes_sent == 0
        answer = await rig.client().request("GET", path_of("bucket", "key"))
        assert (cache_status(answer), answer.body) == ((200, "miss"), b"content")
        assert object_response(answer).headers == object_response(head).headers
        assert origin.log.ranges("key") == ["bytes=0-6"]
        assert origin.log.matching("GET")[0].headers["If-Match"] == head.headers["ETag"]


async def test_get_then_head(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        answer = await rig.client().request("GET", path_of("bucket", "key"))
        head = await rig.client().request("HEAD", path_of("bucket", "key"))
        assert cache_status(head) == (200, "hit-memory")
        assert object_response(head).headers == object_response(answer).headers
        assert origin.log.count(key="key") == 1


async def test_response_without_a_body_releases_its_origin_slot(tmp_path: Path) -> None:
    """More of each kind than there are places."""
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, origin="concurrency = 2", rest=RULES) as rig,
    ):
        client = rig.client()
        for number in range(5):
            key = path_of("bucket", str(number))
            etag = origin.store.put("bucket", str(number), b"content").etag
            assert (await client.request("HEAD", key)).status == 200
            assert (await client.request("GET", key, [("Cache-Control", "no-cache")])).status == 200
            assert (await client.request("HEAD", key, [("Cache-Control", "no-cache")])).status == 200
            assert (await client.request("GET", f"{key}-not", [("If-None-Match", etag)])).status == 404
            origin.store.put("bucket", f"{number}-empty", b"")
            assert (await client.request("GET", f"{key}-empty")).status == 200
            await rig.wait_idle()
            assert rig.parts.origins.of(None).reads.in_use == 0


async def test_odd_keys_are_each_their_own(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for key in ODD_KEYS:
            origin.store.put("bucket", key, key.encode())
        for cache in ("miss", "hit-memory"):
            for key in ODD_KEYS:
                answer = await rig.client().request("GET", path_of("bucket", key))
                assert (cache_status(answer), answer.body) == ((200, cache), key.encode())


@pytest.mark.parametrize("headers", [(), (("If-None-Match", '"a"'),), (("Range", "bytes=-5"),)])
async def test_missing_object_gets_the_origins_error(tmp_path: Path, headers: tuple[tuple[str, str], ...]) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        answer = await rig.client().request("GET", path_of("bucket", "key"), headers)
        assert answer.status == 404
        assert b"<Code>NoSuchKey</Code>" in answer.body
        head = await rig.client().request("HEAD", path_of("bucket", "key"), headers)
        assert (head.status, head.body) == (404, b"")
        origin.store.put("bucket", "key", b"there now")
        assert (await rig.client().request("GET", path_of("bucket", "key"))).body == b"there now"


async def test_a_connection_carries_one_read_after_the_other(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "a", b"first")
        origin.store.put("bucket", "b", b"")
        client = rig.client()
        async with await client.open() as connection:
            for method, key, status, body in (
                ("GET", "a", 200, b"first"),
                ("HEAD", "a", 200, b""),
                ("GET", "b", 200, b""),
                ("GET", "a", 200, b"first"),
            ):
                answer = await client.request(method, path_of("bucket", key), connection=connection)
                assert (answer.status, answer.body) == (status, body)
            answer = await client.request("GET", path_of("bucket", "none"), connection=connection)
            assert answer.status == 404
            etag = (await client.request("HEAD", path_of("bucket", "a"), connection=connection)).headers["ETag"]
            again = [("If-None-Match", etag)]
            answer = await client.request("GET", path_of("bucket", "a"), again, connection=connection)
            assert (answer.status, answer.body) == (304, b"")
            answer = await client.request("GET", path_of("bucket", "a"), connection=connection)
            assert (answer.status, answer.body) == (200, b"first")
