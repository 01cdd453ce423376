"""Chunked uploads without a length: they arrive as any other, or not at all.

S3 refuses them; Ceph and Swift take them, and so must we in front of them.
"""

import hashlib
import re
from base64 import b64encode
from pathlib import Path

import pytest

from harness.clients import UNSIGNED_PAYLOAD, Pairs, chunked
from harness.fake.checksums import digest_of
from harness.fake_origin import FakeOrigin
from harness.file_limit import file_size_limit
from harness.inspection import error_code, run_loop_until
from harness.raw_connection import RawAnswer, head_bytes
from harness.reference_sigv4 import Secret
from harness.rig import READER, Rig

TARGET = "/bucket/key"
BODY = bytes(range(256)) * 1000


def md5(body: bytes) -> str:
    return b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


@pytest.mark.parametrize("size", [0, 1, len(BODY)])
@pytest.mark.parametrize("payload", [None, UNSIGNED_PAYLOAD], ids=["hashed", "unsigned"])
async def test_it_arrives(tmp_path: Path, payload: str | None, size: int) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"old")
        client, body = rig.client(), BODY[:size]
        assert (await client.request("GET", TARGET)).body == b"old"
        headers = (
            ("x-amz-meta-colour", "blue"),
            ("Content-MD5", md5(body)),
            ("x-amz-checksum-crc32", digest_of("crc32", body)),
        )
        answer = await client.send(chunked(client.sign("PUT", TARGET, headers, body, payload=payload)))
        assert answer.status == 200, answer.body
        got = await client.request("GET", TARGET)
        assert (got.body, got.headers["x-amz-meta-colour"]) == (body, "blue")
        assert len(rig.parts.storage.spool) == 0


async def test_documents_and_empty_bodies_arrive_too(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for key in ("key", "other"):
            origin.store.put("bucket", key, b"x")
        client = rig.client()

        async def asked(method: str, target: str, body: bytes = b"", headers: Pairs = ()) -> RawAnswer:
            answer = await client.send(chunked(client.sign(method, target, headers, body)))
            assert answer.status in {200, 204}, answer.body
            return answer

        listed = b"<Delete><Object><Key>other</Key></Object></Delete>"
        await asked("POST", "/bucket?delete", listed, (("Content-MD5", md5(listed)),))
        assert (await client.request("GET", "/bucket/other")).status == 404
        begun = await asked("POST", f"{TARGET}?uploads")
        upload = (re.findall(rb"<UploadId>([^<]+)<", begun.body) or [b""])[0].decode()
        part = await asked("PUT", f"{TARGET}?partNumber=1&uploadId={upload}", b"part")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>".encode()
        whole = b"<CompleteMultipartUpload>" + listed + b"</CompleteMultipartUpload>"
        await asked("POST", f"{TARGET}?uploadId={upload}", whole)
        assert (await client.request("GET", TARGET)).body == b"part"
        await asked("DELETE", TARGET)
        assert (await client.request("GET", TARGET)).status == 404
        assert len(rig.parts.storage.spool) == 0


BAD: dict[str, tuple[Pairs, str | None, str]] = {
    "hash": ((), "0" * 64, "XAmzContentSHA256Mismatch"),
    "md5": ((("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA=="),), None, "BadDigest"),
    "checksum": ((("x-amz-checksum-crc32c", "AAAAAQ=="),), UNSIGNED_PAYLOAD, "BadDigest"),
}


@pytest.mark.parametrize("name", BAD)
async def test_invalid_upload_creates_no_object(tmp_path: Path, name: str) -> None:
    headers, payload, code = BAD[name]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"old")
        request = chunked(rig.client().sign("PUT", TARGET, headers, BODY, payload=payload))
        answer = await rig.client().send(request)
        assert (answer.status, error_code(answer)) == (400, code)
        await rig.wait_idle()
        await origin.log.wait_idle()
        assert origin.store.get("bucket", "key").size == 3
        assert (len(rig.parts.storage.spool), rig.parts.storage.spool.in_use) == (0, 0)


async def test_truncated_upload_creates_no_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"old")
        async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
            client = rig.client()
            request = chunked(client.sign("PUT", TARGET, (), BODY))
            async with await client.open() as connection:
                await connection.send(request.wire[:-5])
            holds = rig.parts.storage.spool
        assert (len(holds), holds.in_use) == (0, 0)
        assert origin.store.get("bucket", "key").size == 3


@pytest.mark.parametrize(
    ("target", "limit", "status", "code"),
    [
        (TARGET, 'request_body = "1MiB"', 400, "EntityTooLarge"),
        (TARGET, 'held = "1MiB"', 503, "SlowDown"),
        ("/bucket?policy", 'held = "64MiB"', 400, "EntityTooLarge"),
    ],
)
async def test_it_has_a_limit(tmp_path: Path, target: str, limit: str, status: int, code: str) -> None:
    rest = f"[limits]\n{limit}\n"
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        request = client.sign("PUT", target, (), bytes(5 << 20), payload=UNSIGNED_PAYLOAD)
        answer = await client.send(chunked(request, 1 << 16))
        assert (answer.status, error_code(answer)) == (status, code)
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []
        assert (len(rig.parts.storage.spool), rig.parts.storage.spool.in_use, rig.parts.storage.budget.in_use) == (
            0,
            0,
            0,
        )


@pytest.mark.parametrize("name", ["unknown length", "part of a plan", "recording"])
async def test_a_full_disk_of_the_spool_slows_down(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    held = tmp_path / "held"
    rest = f'[limits]\nheld_path = "{held}"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest, buffers="16MiB") as rig:
        origin.store.create_bucket("bucket")
        client, content = rig.client(), bytes(8 << 20)
        plan = f"/bucket/.forebay/plans/order?partNumber=1&uploadId={'0' * 32}"
        target = {"unknown length": TARGET, "part of a plan": plan, "recording": "/bucket/.forebay/recordings/order"}
        with file_size_limit(1 << 20):
            request = client.sign("PUT", target[name], (), content, payload=UNSIGNED_PAYLOAD)
            answer = await client.send(chunked(request, 1 << 16) if name == "unknown length" else request)
        assert (answer.status, error_code(answer), answer.headers["Retry-After"]) == (503, "SlowDown", "1")
        assert b"limits.held_path" in answer.body
        assert f"a body can't be kept: {held}: File too large" in caplog.text
        assert "Traceback" not in caplog.text
        storage = rig.parts.storage
        assert (len(storage.spool), storage.spool.in_use) == (0, 0)
        await run_loop_until(lambda: storage.budget.in_use == 0)  # what the connection has received
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []


@pytest.mark.parametrize(
    ("secret", "code"), [(READER, "AccessDenied"), (Secret("trainer", "wrong"), "SignatureDoesNotMatch")]
)
async def test_unauthorised_upload_is_not_spooled(tmp_path: Path, secret: Secret, code: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        client = rig.client(secret)
        request = chunked(client.sign("PUT", TARGET, (), BODY))
        async with await client.open() as connection:
            await connection.send(head_bytes(request.method, request.target, request.pairs))
            answer = await connection.answer("PUT")  # before a byte of the body
            assert (answer.status, error_code(answer)) == (403, code)
        assert len(rig.parts.storage.spool) == 0
