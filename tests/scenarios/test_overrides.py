"""response-* overrides on hits, headers that presigned URLs move into the query, and other special requests."""

from pathlib import Path
from urllib.parse import quote

import pytest

from harness.clients import query_of
from harness.fake import actions
from harness.fake.checksums import digest_of
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import Rig

RULES = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
TARGET = "/bucket/key"
ALL = {
    "response-cache-control": "no-store",
    "response-content-disposition": 'attachment; filename="a b.txt"',
    "response-content-encoding": "x-none",
    "response-content-language": "de",
    "response-content-type": "text/x-y; charset=utf-8",
    "response-expires": "Tue, 10 Nov 2026 10:00:00 GMT",
}


async def test_overrides_apply_to_hits_and_are_not_cached(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"content", content_type="text/plain", cache_control="max-age=1")
        client = rig.client()
        for signed in (f"{TARGET}?{query_of(ALL)}", client.presign("GET", f"{TARGET}?{query_of(ALL)}")):
            for ranged, status, body in (((), 200, b"content"), ((("Range", "bytes=0-1"),), 206, b"co")):
                if "Signature" in signed:
                    answer = await client.unsigned("GET", signed, ranged)
                else:
                    answer = await client.request("GET", signed, ranged)
                assert (answer.status, answer.body) == (status, body)
                for name, value in ALL.items():
                    assert answer.headers.getall(name.removeprefix("response-")) == [value]
        assert origin.log.count("GET") == 1
        plain = await client.request("GET", TARGET)
        assert (plain.headers["Content-Type"], plain.headers["Cache-Control"]) == ("text/plain", "max-age=1")
        assert "Content-Disposition" not in plain.headers
        head = await client.request("HEAD", f"{TARGET}?response-content-type=text%2Fx")
        assert (head.headers["Content-Type"], head.headers["x-forebay-cache"]) == ("text/x", "hit-memory")


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: b", "a\nb", "a\0b", "\x7f", "日本"])
async def test_a_value_that_can_be_no_header_is_refused(tmp_path: Path, value: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"content")
        for _ in range(2):
            answer = await rig.client().request("GET", f"{TARGET}?response-content-type={quote(value, safe='')}")
            assert (answer.status, "Set-Cookie" in answer.headers) == (400, False)
            await rig.client().request("GET", TARGET)


async def test_overrides_need_a_signature(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"content")
        await rig.client().request("GET", TARGET)
        assert (await rig.client().unsigned("GET", f"{TARGET}?response-content-type=a%2Fb")).status == 403
        changed = rig.client().presign("GET", f"{TARGET}?response-content-type=a%2Fb").replace("a%2Fb", "a%2Fc")
        assert (await rig.client().unsigned("GET", changed)).status == 403


async def test_presigned_query_headers_reach_the_origin_as_headers(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        hoisted = query_of(
            {
                "x-amz-acl": "private",
                "x-amz-checksum-crc32": digest_of("crc32", b"content"),
                "x-amz-meta-colour": "blue",
                "x-amz-sdk-checksum-algorithm": "CRC32",
                "x-id": "PutObject",
            }
        )
        target = client.presign("PUT", f"{TARGET}?{hoisted}")
        assert (await client.unsigned("PUT", target, (), b"content")).status == 200
        version = origin.store.get("bucket", "key")
        assert dict(version.headers)["x-amz-meta-colour"] == "blue"
        assert version.checksums == (("crc32", digest_of("crc32", b"content")),)
        other = await client.unsigned("PUT", target, (), b"another")
        assert (other.status, b"<Code>BadDigest</Code>" in other.body) == (400, True)
        changed = await client.unsigned("PUT", target.replace("blue", "red"), (), b"content")
        assert changed.status == 403
        smuggled = client.presign("PUT", f"{TARGET}?x-amz-meta-a=b%0D%0Ax-amz-acl%3Apublic-read")
        assert (await client.unsigned("PUT", smuggled, (), b"content")).status == 400
        both = client.presign("PUT", f"{TARGET}?x-amz-acl=private", headers=(("x-amz-acl", "public-read"),))
        assert (await client.unsigned("PUT", both, (("x-amz-acl", "public-read"),), b"content")).status == 400


async def test_copy_source_in_a_presigned_query_must_be_readable(tmp_path: Path) -> None:
    rules = RULES + (
        '\n[[auth.keys]]\nid = "writer"\nsecret = "writer-secret"\n'
        'grants = [{ path = "bucket/mine/**", allow = ["read", "write"] }]\n'
    )
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rules) as rig:
        origin.store.put("bucket", "secret", b"secret")
        origin.store.put("bucket", "mine/source", b"mine")
        client = rig.client(Secret("writer", "writer-secret"))
        for source, status in (("bucket%2Fsecret", 403), ("bucket%2Fmine%2Fsource", 200)):
            target = client.presign("PUT", f"/bucket/mine/copy?x-amz-copy-source={source}")
            assert (await client.unsigned("PUT", target)).status == status


async def test_two_ranges_are_ignored_as_several_in_one_are(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"content")
        for ranges in ((("Range", "bytes=0-1"), ("Range", "bytes=2-3")), (("Range", "bytes=0-1,2-3"),)):
            answer = await rig.client().request("GET", TARGET, ranges)
            assert (answer.status, answer.body) == (200, b"content")


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("PUT", (("If-None-Match", "*"),), 412),
        ("PUT", (("If-Match", '"other"'),), 412),
        ("DELETE", (("If-Match", '"other"'),), 412),
    ],
)
async def test_a_refused_conditional_write_leaves_the_cache_right(
    tmp_path: Path, method: str, headers: tuple[tuple[str, str], ...], status: int
) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"old")
        client = rig.client()
        await client.request("GET", TARGET)
        answer = await client.request(method, TARGET, headers, b"new" if method == "PUT" else b"")
        assert (answer.status, b"<Code>PreconditionFailed</Code>" in answer.body) == (status, True)
        origin.faults.add(actions.Respond(409, "ConditionalRequestConflict"), method=method, times=1)
        conflict = await client.request(method, TARGET, headers, b"new" if method == "PUT" else b"")
        assert (conflict.status, b"ConditionalRequestConflict" in conflict.body) == (409, True)
        for cache in ("miss", "hit-memory"):
            found = await client.request("GET", TARGET)
            assert (found.body, found.headers["x-forebay-cache"]) == (b"old", cache)
        good = (("If-Match", found.headers["ETag"]),)
        assert (await client.request("PUT", TARGET, good, b"new")).status == 200
        assert (await client.request("GET", TARGET)).body == b"new"


async def test_requests_only_the_origin_can_answer_are_forwarded(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"content")
        client = rig.client()
        await client.request("GET", TARGET)
        for name, value in (
            ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ("x-amz-request-payer", "requester"),
            ("x-amz-expected-bucket-owner", "111122223333"),
        ):
            for target in (TARGET, f"{TARGET}?response-content-type=a%2Fb"):
                origin.log.reset()
                answer = await client.request("GET", target, ((name, value),))
                assert answer.headers["x-forebay-cache"] == "bypass"
                assert origin.log.requests[-1].headers[name] == value


async def test_redirect_is_returned_and_not_followed(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("bucket", "key", b"content")
        redirect = origin.faults.add(actions.Redirect(f"{origin.endpoint}/bucket/other", 307))
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            answer = await rig.client().request(method, TARGET)
            assert (answer.status, answer.headers["Location"]) == (307, f"{origin.endpoint}/bucket/other")
        assert not origin.log.count(key="other")
        origin.faults.remove(redirect)
        assert (await rig.client().request("GET", TARGET)).body == b"content"


@pytest.mark.parametrize(("dialect", "bucket"), [("minio", "minio"), ("minio", "%6Dinio"), ("ceph", "admin")])
async def test_an_origins_own_interfaces_are_out_of_reach(tmp_path: Path, dialect: str, bucket: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, dialect=dialect) as rig:
        for method in ("GET", "HEAD", "PUT", "DELETE", "POST"):
            for path in (f"/{bucket}", f"/{bucket}/v3/info", f"/{bucket}/v3/info?unknown=1"):
                answer = await rig.client().request(method, path)
                assert 400 <= answer.status < 500
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []
