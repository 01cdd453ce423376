"""Who has a credential of its own at the origin, or none at all, meets what the journal holds as the origin would show
it: not at all."""

from pathlib import Path
from typing import Final

import pytest

from harness.clients import RawRequest, path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.write_back_rig import WriteBackRig, at_origin

OWN: Final = Secret("own", "own-secret")
REFUSED_THERE: Final = """
[[auth.keys]]
id = "own"
secret = "own-secret"
origin_access_key = "unknown"
origin_secret_key = "unknown"
grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]

[auth.anonymous]
grants = [{ path = "**", allow = ["read", "write", "list", "delete"] }]

"""
CALLERS: Final = pytest.mark.parametrize("caller", ["own credential", "anonymous"])
TARGET: Final = path_of("ckpt", "a/upload")
COPIED: Final = (("x-amz-copy-source", "ckpt/a/source"),)


async def ask(rig: WriteBackRig, caller: str, way: tuple[str, str, tuple[tuple[str, str], ...], bytes]) -> RawAnswer:
    method, target, headers, body = way
    if caller == "own credential":
        return await rig.client(OWN).request(method, target, headers, body)
    length = (("Content-Length", str(len(body))),) if method in {"PUT", "POST"} else ()
    return await rig.client().send(RawRequest(method, target, (("Host", "forebay.test"), *headers, *length), body))


@CALLERS
async def test_an_upload_of_the_journal_is_not_theirs(tmp_path: Path, caller: str) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=REFUSED_THERE) as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/source", b"source")
        created = await rig.client().request("POST", f"{TARGET}?uploads=")
        assert created.headers["x-forebay-durable"] == "local"
        upload_id = created.body.partition(b"<UploadId>")[2].partition(b"<")[0].decode()
        uploaded = await rig.client().request("PUT", f"{TARGET}?partNumber=1&uploadId={upload_id}", (), b"part")
        etag = uploaded.headers["ETag"]
        completion = (
            f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
            "</CompleteMultipartUpload>"
        ).encode()
        for way in (
            ("GET", f"{TARGET}?uploadId={upload_id}", (), b""),
            ("PUT", f"{TARGET}?partNumber=1&uploadId={upload_id}", (), b"other"),
            ("PUT", f"{TARGET}?partNumber=2&uploadId={upload_id}", COPIED, b""),
            ("POST", f"{TARGET}?uploadId={upload_id}", (), completion),
            ("DELETE", f"{TARGET}?uploadId={upload_id}", (), b""),
        ):
            answer = await ask(rig, caller, way)
            assert answer.status >= 400, way
            assert answer.headers.get("x-forebay-durable") != "local", way
        [upload] = rig.write_back.uploads.by_id.values()
        assert {number: part.part.etag for number, part in upload.parts.items()} == {1: etag}
        completed = await rig.client().request("POST", f"{TARGET}?uploadId={upload_id}", (), completion)
        assert completed.headers["x-forebay-durable"] == "local"
        await rig.settled()
        assert at_origin(origin, "a/upload") == b"part"


@CALLERS
async def test_pending_writes_are_not_shown_to_them(tmp_path: Path, caller: str) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=REFUSED_THERE) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", b"pending")
        document = path_of("ckpt", ".forebay/writes/a/pending")
        assert (await rig.client().request("GET", document)).status == 200
        assert (await ask(rig, caller, ("GET", document, (), b""))).status in {403, 404}
        listing = await ask(rig, caller, ("GET", "/ckpt?prefix=.forebay%2Fwrites%2F", (), b""))
        assert b"a/pending" not in listing.body
        gate.open()
        await rig.settled()


@CALLERS
async def test_their_refusals_end_no_proof_of_forebays_own(tmp_path: Path, caller: str) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=REFUSED_THERE) as rig:
        await rig.prove()
        for method in ("PUT", "DELETE"):
            answer = await ask(rig, caller, (method, path_of("ckpt", "a/theirs"), (), b""))
            assert answer.status >= 400, method
        before = len(origin.log.requests)
        await rig.put("a/object", b"content")
        await rig.settled()
        assert [each.method for each in origin.log.requests[before:] if each.method != "HEAD"] == ["PUT"], "no probe"
