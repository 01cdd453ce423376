"""Ranges: which bytes, how they are labelled, and how little is fetched for them."""

from pathlib import Path
from random import Random

import pytest

from forebay.core.byte_ranges import Span
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status, metric_value, object_response
from harness.rig import Rig

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BLOCK = 64 * KIB
RULES = '[[rules]]\npath = "**"\nblock = "64KiB"\n'
SIZE = 3 * BLOCK + 17
RANGES = (
    "bytes=0-0",
    "bytes=0-99",
    "bytes=100-65535",
    "bytes=65535-65536",
    "bytes=65536-131071",
    f"bytes={SIZE - 1}-{SIZE - 1}",
    f"bytes={SIZE - 1}-",
    "bytes=0-",
    "bytes=70000-",
    "bytes=-1",
    "bytes=-100000",
    f"bytes=-{SIZE}",
    f"bytes=-{SIZE + 1}",
    "bytes=-99999999999999999999999",
    f"bytes=5-{SIZE}",
    "bytes=5-99999999999999999999999",
    # No range of bytes: the whole object is answered.
    "bytes=9-0",
    "bytes=",
    "bytes=a-b",
    "lines=1-2",
)
SEVERAL = ("bytes=0-9,20-29", "bytes=0-9, 65536-", "bytes=-1,-2")
BEYOND = (f"bytes={SIZE}-", f"bytes={SIZE}-{SIZE + 9}", "bytes=99999999999-", "bytes=-0")


async def test_ranges_match_the_origin_cold_and_warm(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        direct = RawClient(origin.endpoint, origin.secret)
        for number, asked in enumerate(RANGES):
            path = path_of("bucket", f"key-{number}")
            origin.store.put_synthetic("bucket", f"key-{number}", SIZE)
            said = object_response(await direct.request("GET", path, [("Range", asked)]))
            assert said.status in {200, 206}
            for cache in ("miss", "hit-memory"):
                answer = await rig.client().request("GET", path, [("Range", asked)])
                assert (asked, object_response(answer)) == (asked, said)
                assert answer.headers["x-forebay-cache"] == cache
            head = await rig.client().request("HEAD", path, [("Range", asked)])
            assert (head.status, object_response(head).headers) == (said.status, said.headers)


async def test_several_ranges_are_the_origins_to_answer_cold_and_warm(tmp_path: Path) -> None:
    """S3 answers with the whole object, Swift with all of them."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put_synthetic("bucket", "key", SIZE)
        path, client = path_of("bucket", "key"), rig.client()
        for warm in (False, True):
            for asked in SEVERAL:
                said = object_response(
                    await RawClient(origin.endpoint, origin.secret).request("GET", path, [("Range", asked)])
                )
                answer = await client.request("GET", path, [("Range", asked)])
                assert (asked, object_response(answer)) == (asked, said)
                assert answer.headers["x-forebay-cache"] == "bypass"
            if not warm:
                assert (await client.request("GET", path)).status == 200


@pytest.mark.parametrize("size", [SIZE, 1, 0])
async def test_a_range_beyond_the_end_is_416_cold_and_warm(tmp_path: Path, size: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        beyond = BEYOND if size else (*BEYOND, "bytes=0-0", "bytes=0-", "bytes=-5")
        for number, asked in enumerate(beyond):
            path = path_of("bucket", f"key-{number}")
            content = origin.store.put_synthetic("bucket", f"key-{number}", size)
            for _ in range(2):
                answer = await rig.client().request("GET", path, [("Range", asked)])
                assert (asked, answer.status) == (asked, 416)
                assert answer.headers["Content-Range"] == f"bytes */{size}"
                assert b"<Code>InvalidRange</Code>" in answer.body
                assert b"<ActualObjectSize>%d</ActualObjectSize>" % size in answer.body
                head = await rig.client().request("HEAD", path, [("Range", asked)])
                assert (head.status, head.body) == (416, b"")
            whole = await rig.client().request("GET", path)
            assert (whole.status, whole.body) == (200, content.expected(Span(0, size)))


async def test_the_first_kilobyte_of_ten_gibibytes_fetches_one_block(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        content = origin.store.put_synthetic("bucket", "huge", 10 * GIB)
        for cache in ("miss", "hit-memory"):
            answer = await rig.client().request("GET", path_of("bucket", "huge"), [("Range", "bytes=0-1023")])
            assert (cache_status(answer), answer.body) == ((206, cache), content.expected(Span(0, 1024)))
            assert answer.headers["Content-Range"] == f"bytes 0-1023/{10 * GIB}"
        assert origin.log.ranges("huge") == ["bytes=0-1048575"]
        assert await metric_value(rig, 'forebay_read_amplification_ratio{rule="default"}') == 1024
        assert await metric_value(rig, 'forebay_origin_read_bytes_total{rule="default"}') == MIB


async def test_the_last_bytes_of_ten_gibibytes_fetch_one_block(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        size = 10 * GIB + 5
        content = origin.store.put_synthetic("bucket", "huge", size)
        answer = await rig.client().request("GET", path_of("bucket", "huge"), [("Range", "bytes=-8")])
        assert answer.body == content.expected(Span(size - 8, size))
        # The last eight bytes lie in two blocks, which are neighbours: one request.
        assert origin.log.ranges("huge") == [f"bytes={10 * GIB - MIB}-{size - 1}"]


async def test_random_ranges_of_a_large_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        chance, size = Random(7), 3 * GIB + 12345
        content = origin.store.put_synthetic("bucket", "large", size)
        for _ in range(150):
            # In the same 4 MiB again and again, so that blocks at hand, in part and missing are all met.
            start = 2 * GIB + chance.randrange(4 * MIB)
            stop = start + chance.choice((1, 100, BLOCK, 700 * KIB))
            answer = await rig.client().request(
                "GET", path_of("bucket", "large"), [("Range", f"bytes={start}-{stop - 1}")]
            )
            assert answer.status == 206
            assert answer.body == content.expected(Span(start, stop))
        # Each block came once, but for those that were read through to save a request.
        assert origin.log.bytes_sent <= 2 * 5 * MIB


async def test_cached_blocks_are_not_fetched_again(tmp_path: Path) -> None:
    """Missing neighbours come in one request each side of what is there."""
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, origin='gap = "0"', rest=RULES) as rig,
    ):
        content = origin.store.put_synthetic("bucket", "key", 8 * BLOCK)
        await rig.client().request("GET", path_of("bucket", "key"), [("Range", f"bytes={3 * BLOCK}-{4 * BLOCK - 1}")])
        answer = await rig.client().request("GET", path_of("bucket", "key"))
        assert (cache_status(answer), answer.body) == ((200, "partial"), content.expected(Span(0, 8 * BLOCK)))
        fetched = origin.log.ranges("key")[1:]  # over two connections, in any order
        assert sorted(map(str, fetched)) == [f"bytes=0-{3 * BLOCK - 1}", f"bytes={4 * BLOCK}-{8 * BLOCK - 1}"]


async def test_a_small_gap_is_read_through_to_save_a_request(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = origin.store.put_synthetic("bucket", "key", 8 * BLOCK)
        await rig.client().request("GET", path_of("bucket", "key"), [("Range", f"bytes={3 * BLOCK}-{4 * BLOCK - 1}")])
        answer = await rig.client().request("GET", path_of("bucket", "key"))
        assert answer.body == content.expected(Span(0, 8 * BLOCK))
        assert origin.log.ranges("key")[1:] == [f"bytes=0-{8 * BLOCK - 1}"]
