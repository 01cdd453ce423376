"""Conditional reads: the same outcome as the origin's, whether from the cache or not."""

from pathlib import Path
from typing import Final

from harness.clients import RawClient, path_of
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.inspection import object_response
from harness.rig import Rig

BODY: Final = b"content" * 1000
ETAG: Final = md5_etag(BODY)
OTHER: Final = '"00000000000000000000000000000bad"'
MODIFIED: Final = 1_700_000_000.0
SAME: Final = "Tue, 14 Nov 2023 22:13:20 GMT"
BEFORE: Final = "Tue, 14 Nov 2023 22:13:19 GMT"
AFTER: Final = "Tue, 14 Nov 2023 22:13:21 GMT"

CONDITIONS: Final = (
    (200, (("If-Match", ETAG),)),
    (200, (("If-Match", "*"),)),
    (200, (("If-Match", f"{OTHER}, {ETAG}"),)),
    (412, (("If-Match", OTHER),)),
    (412, (("If-Match", f"W/{ETAG}"),)),
    (304, (("If-None-Match", ETAG),)),
    (304, (("If-None-Match", f"W/{ETAG}"),)),
    (304, (("If-None-Match", "*"),)),
    (200, (("If-None-Match", OTHER),)),
    (304, (("If-Modified-Since", SAME),)),
    (304, (("If-Modified-Since", AFTER),)),
    (200, (("If-Modified-Since", BEFORE),)),
    (200, (("If-Modified-Since", "no date"),)),
    (200, (("If-Unmodified-Since", SAME),)),
    (200, (("If-Unmodified-Since", AFTER),)),
    (412, (("If-Unmodified-Since", BEFORE),)),
    # Who has precedence (RFC 9110 section 13.2.2).
    (200, (("If-Match", ETAG), ("If-Unmodified-Since", BEFORE))),
    (412, (("If-Match", OTHER), ("If-Unmodified-Since", AFTER))),
    (304, (("If-None-Match", ETAG), ("If-Modified-Since", BEFORE))),
    (200, (("If-None-Match", OTHER), ("If-Modified-Since", AFTER))),
    (412, (("If-Match", OTHER), ("If-None-Match", ETAG))),
    (304, (("If-Match", ETAG), ("If-None-Match", ETAG))),
    (412, (("If-Unmodified-Since", BEFORE), ("If-None-Match", ETAG))),
    # With a range, which only counts once the rest has held.
    (206, (("Range", "bytes=5-9"), ("If-Match", ETAG))),
    (412, (("Range", "bytes=5-9"), ("If-Match", OTHER))),
    (304, (("Range", "bytes=5-9"), ("If-None-Match", ETAG))),
    (206, (("Range", "bytes=5-9"), ("If-None-Match", OTHER))),
    (412, (("Range", "bytes=99999-"), ("If-Match", OTHER))),
    (206, (("Range", "bytes=5-9"), ("If-Range", ETAG))),
    (200, (("Range", "bytes=5-9"), ("If-Range", OTHER))),
    (200, (("Range", "bytes=5-9"), ("If-Range", f"W/{ETAG}"))),
    (206, (("Range", "bytes=5-9"), ("If-Range", SAME))),
    (200, (("Range", "bytes=5-9"), ("If-Range", AFTER))),
    (200, (("Range", "bytes=5-9"), ("If-Range", BEFORE))),
    (200, (("If-Range", ETAG),)),
    (304, (("Range", "bytes=5-9"), ("If-Range", ETAG), ("If-None-Match", ETAG))),
)


async def test_each_condition_is_judged_as_the_origin_does_cold_and_warm(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.clock = lambda: MODIFIED
        direct = RawClient(origin.endpoint, origin.secret)
        for method in ("GET", "HEAD"):
            for number, (status, headers) in enumerate(CONDITIONS):
                key = f"{method}-{number}"
                origin.store.put("bucket", key, BODY, cache_control="no-transform", x_amz_meta_a="b")
                said = object_response(await direct.request(method, path_of("bucket", key), headers))
                assert (headers, said.status) == (headers, status)
                for _ in range(2):
                    answer = object_response(await rig.client().request(method, path_of("bucket", key), headers))
                    assert (headers, answer.status) == (headers, status)
                    if status in {200, 206}:
                        assert answer == said
                await rig.client().request("GET", path_of("bucket", key))
                origin.log.reset()
                warm = object_response(await rig.client().request(method, path_of("bucket", key), headers))
                assert (headers, warm.status) == (headers, status)
                assert origin.log.count(key=key) == 0


async def test_304_has_no_body_and_names_the_version(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY, cache_control="max-age=60")
        for cache in ("miss", "hit-memory"):
            answer = await rig.client().request("GET", path_of("bucket", "key"), [("If-None-Match", ETAG)])
            assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", ETAG)
            assert answer.headers["x-forebay-cache"] == cache
            assert answer.headers["Cache-Control"] == "max-age=60"
            assert "Content-Length" not in answer.headers or answer.headers["Content-Length"] == str(len(BODY))
        assert origin.log.bytes_sent == 0


async def test_412_has_the_document_of_s3(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        for _ in range(2):
            answer = await rig.client().request("GET", path_of("bucket", "key"), [("If-Match", OTHER)])
            assert answer.status == 412
            assert b"<Code>PreconditionFailed</Code>" in answer.body
            assert b"<Condition>If-Match</Condition>" in answer.body


async def test_condition_on_a_stale_object_uses_the_new_version(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        await rig.client().request("GET", path_of("bucket", "key"))
        origin.store.put("bucket", "key", b"new")
        rig.advance_clock(61)
        answer = await rig.client().request("GET", path_of("bucket", "key"), [("If-None-Match", ETAG)])
        assert (answer.status, answer.body) == (200, b"new")
        answer = await rig.client().request("GET", path_of("bucket", "key"), [("If-Match", ETAG)])
        assert answer.status == 412
