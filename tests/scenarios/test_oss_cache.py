"""One cache under both dialects: what is warmed through one is a hit through the other, what is written through one is
seen through the other, and neither lets in whom the other would not."""

from base64 import b64encode
from hashlib import md5
from pathlib import Path

import pytest

from forebay.protocol.body.crc64 import crc64
from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient, told
from harness.raw_connection import RawAnswer
from harness.rig import READER, TRAINER, Rig

KEY = "open/key"
TARGET = f"/bucket/{KEY}"
IMMUTABLE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'

Client = RawClient | OssClient


def clients(rig: Rig) -> dict[str, Client]:
    return {"s3": rig.client(), "oss": OssClient(rig.endpoint, TRAINER)}


@pytest.mark.parametrize(("first", "then"), [("s3", "oss"), ("oss", "s3")])
async def test_object_warmed_in_one_dialect_is_a_hit_in_the_other(tmp_path: Path, first: str, then: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        stored = origin.store.put("bucket", KEY, b"0123456789" * 400, x_amz_meta_colour="red")
        both = clients(rig)
        assert (await both[first].request("GET", TARGET)).headers["x-forebay-cache"] == "miss"
        asked = len(origin.log.requests)
        for headers in ([], [("Range", "bytes=5-14")]):
            answer = await both[then].request("GET", TARGET, headers)
            assert answer.headers["x-forebay-cache"] == "hit-memory"
            assert answer.body == (b"5678901234" if headers else b"0123456789" * 400)
            assert answer.headers["ETag"] == (stored.etag.upper() if then == "oss" else stored.etag)
            assert answer.headers["x-oss-meta-colour" if then == "oss" else "x-amz-meta-colour"] == "red"
            marks = {name[:6].lower() for name, _ in answer.pairs if name.lower().startswith(("x-amz-", "x-oss-"))}
            assert marks == {f"x-{'oss' if then == 'oss' else 'amz'}-"}
        assert len(origin.log.requests) == asked


@pytest.mark.parametrize("writer", ["s3", "oss"])
@pytest.mark.parametrize("write", ["put", "delete", "delete many", "multipart", "copy", "acl"])
async def test_write_in_one_dialect_is_seen_in_the_other(tmp_path: Path, writer: str, write: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=IMMUTABLE) as rig:
        origin.store.put("bucket", KEY, b"old")
        origin.store.put("bucket", "source", b"copied")
        both = clients(rig)
        for client in both.values():
            assert (await client.request("GET", TARGET)).body == b"old"
        origin.store.put("bucket", KEY, b"behind its back")
        assert (await both["oss"].request("GET", TARGET)).body == b"old"
        answer = await _write(both[writer], write)
        assert answer.status in {200, 204}, answer.body
        now = {"put": b"new", "multipart": b"new", "copy": b"copied", "acl": b"behind its back"}.get(write)
        for client in both.values():
            seen = await client.request("GET", TARGET)
            assert (seen.status, seen.body if now else None) == (200 if now else 404, now)


async def _write(client: Client, write: str) -> RawAnswer:
    prefix = "x-oss-" if isinstance(client, OssClient) else "x-amz-"
    match write:
        case "put":
            return await client.request("PUT", TARGET, (), b"new")
        case "delete":
            return await client.request("DELETE", TARGET)
        case "delete many":
            body = f"<Delete><Object><Key>{KEY}</Key></Object></Delete>".encode()
            return await client.request("POST", "/bucket?delete", [_digest(body)], body)
        case "copy":
            return await client.request("PUT", TARGET, [(f"{prefix}copy-source", "/bucket/source")])
        case "acl":
            name = f"{prefix}object-acl" if isinstance(client, OssClient) else "x-amz-acl"
            return await client.request("PUT", f"{TARGET}?acl", [(name, "private")])
        case _:
            upload = told(await client.request("POST", f"{TARGET}?uploads"), "UploadId")
            part = await client.request("PUT", f"{TARGET}?partNumber=1&uploadId={upload}", (), b"new")
            listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
            body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
            return await client.request("POST", f"{TARGET}?uploadId={upload}", [_digest(body)], body)


def _digest(body: bytes) -> tuple[str, str]:
    return "Content-MD5", b64encode(md5(body, usedforsecurity=False).digest()).decode()


async def test_crc_belongs_to_exactly_one_version(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB") as rig:
        origin.store.create_bucket("bucket")
        both = clients(rig)
        body, crc = b"0123456789" * 9, str(crc64(b"0123456789" * 9))
        written = await both["oss"].request("PUT", TARGET, (), body)
        assert written.headers["x-oss-hash-crc64ecma"] == crc
        assert "x-oss-hash-crc64ecma" not in (await both["s3"].request("PUT", "/bucket/other", (), body)).headers
        for target in (TARGET, "/bucket/other"):
            for method, headers in (("GET", []), ("GET", [("Range", "bytes=1-2")]), ("HEAD", []), ("GET", [])):
                answer = await OssClient(rig.endpoint, TRAINER).request(method, target, headers)
                assert answer.headers["x-oss-hash-crc64ecma"] == crc
            assert "x-oss-hash-crc64ecma" not in (await both["s3"].request("GET", target)).headers
        await rig.parts.storage.tiers.flush()
        await rig.restart()
        client = OssClient(rig.endpoint, TRAINER)
        assert (await client.request("GET", TARGET)).headers["x-oss-hash-crc64ecma"] == crc  # it is with the head
        rig.advance_clock(61)
        assert (await client.request("GET", TARGET)).headers["x-oss-hash-crc64ecma"] == crc  # vouched for again
        origin.store.put("bucket", KEY, b"another")
        rig.advance_clock(61)
        assert "x-oss-hash-crc64ecma" not in (await client.request("GET", TARGET)).headers
        origin.store.put("bucket", "unknown", body)
        assert "x-oss-hash-crc64ecma" not in (await client.request("GET", "/bucket/unknown")).headers


async def test_grants_are_the_same(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for key in (KEY, "closed/key"):
            origin.store.put("bucket", key, b"content")
            await rig.client().request("GET", f"/bucket/{key}")
        reader = OssClient(rig.endpoint, READER)
        assert (await reader.request("GET", TARGET)).status == 200
        assert (await reader.request("GET", "/bucket?prefix=open/")).status == 200
        for method, target, headers in (
            ("GET", "/bucket/closed/key", []),
            ("HEAD", "/bucket/closed/key", []),
            ("HEAD", "/bucket/closed/key?objectMeta", []),
            ("GET", "/bucket", []),
            ("GET", "/bucket?prefix=closed/&list-type=2", []),
            ("GET", "/bucket?bucketInfo", []),
            ("GET", "/", []),
            ("PUT", TARGET, []),
            ("PUT", TARGET, [("x-oss-copy-source", "/bucket/closed/key")]),
            ("DELETE", TARGET, []),
            ("POST", f"{TARGET}?uploads", []),
        ):
            refused = await reader.request(method, target, headers)
            assert refused.status == 403, (method, target)
            assert "content" not in refused.body.decode()
            assert refused.headers["x-oss-ec"] == "0003-00000001"


@pytest.mark.parametrize("header", ["x-amz-copy-source", "x-amz-meta-a", "x-amz-acl"])
async def test_a_header_of_the_other_dialect_is_not_let_in(tmp_path: Path, header: str) -> None:
    """The signature of OSS does not cover it."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "closed/key", b"secret")
        answer = await OssClient(rig.endpoint, TRAINER).request("PUT", TARGET, [(header, "/bucket/closed/key")], b"x")
        assert answer.status == 403
