"""The owner that a request expects of its bucket is compared by the origin, also where the journal answers."""

from pathlib import Path

import pytest

from harness.bucket_owners import EXPECTED, OTHER_OWNER, OWNER, owned
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.oss_client import told
from harness.write_back_rig import WriteBackRig

MIB = 1 << 20
SOURCE = "x-amz-source-expected-bucket-owner"
DOCUMENT = "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>"
TARGET = path_of("ckpt", "a/file")


@pytest.mark.parametrize(
    "request_name", ["part", "copied part", "copied part of another", "parts", "uploads", "complete", "abort"]
)
async def test_requests_of_uploads_are_refused_for_another_owner(tmp_path: Path, request_name: str) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.put("ckpt", "source", b"s" * MIB)
        owned(origin)
        client = rig.client()
        upload = told(await client.request("POST", f"{TARGET}?uploads"), "UploadId")
        part = await client.request("PUT", f"{TARGET}?partNumber=1&uploadId={upload}", (), b"first")
        copied = (("x-amz-copy-source", "/ckpt/source"),)
        document = (DOCUMENT % part.headers["ETag"]).encode()
        method, target, headers, body = {
            "part": ("PUT", f"{TARGET}?partNumber=1&uploadId={upload}", (), b"second"),
            "copied part": ("PUT", f"{TARGET}?partNumber=1&uploadId={upload}", copied, b""),
            "copied part of another": ("PUT", f"{TARGET}?partNumber=1&uploadId={upload}", copied, b""),
            "parts": ("GET", f"{TARGET}?uploadId={upload}", (), b""),
            "uploads": ("GET", "/ckpt?uploads", (), b""),
            "complete": ("POST", f"{TARGET}?uploadId={upload}", (), document),
            "abort": ("DELETE", f"{TARGET}?uploadId={upload}", (), b""),
        }[request_name]
        header = SOURCE if request_name.endswith("another") else EXPECTED
        refused = await client.request(method, target, (*headers, (header, OTHER_OWNER)), body)
        assert (refused.status, b"<Code>AccessDenied</Code>" in refused.body) == (403, True), refused.body
        listed = await client.request("GET", f"{TARGET}?uploadId={upload}")
        assert told(listed, "ETag").strip('"').replace("&quot;", "") == part.headers["ETag"].strip('"')
        accepted = await client.request(method, target, (*headers, (header, OWNER)), body)
        assert accepted.status in {200, 204}, accepted.body
