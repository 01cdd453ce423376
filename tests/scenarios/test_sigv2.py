"""Signature Version 2 over a socket: boto3 and the AWS CLI as users have them, and what must not come in by it."""

import asyncio
import os
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from botocore.auth import HmacV1Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

CLI = Path(__file__).parents[2] / ".venv" / "bin" / "aws"
IMMUTABLE = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'


def header_of(secret: Secret, rig: Rig, method: str, target: str) -> tuple[tuple[str, str], ...]:
    request = AWSRequest(method, rig.endpoint + target)
    HmacV1Auth(Credentials(secret.access, secret.secret)).add_auth(request)
    return tuple((name, str(value)) for name, value in request.headers.items())


async def test_boto3_with_version_2_does_its_work(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=IMMUTABLE) as rig:
        client = rig.boto3(signature_version="s3")

        def work() -> None:
            client.create_bucket(Bucket="bucket")
            client.put_object(Bucket="bucket", Key="a b/ü+", Body=b"content", Metadata={"colour": "blue"})
            for _ in range(2):
                found = client.get_object(Bucket="bucket", Key="a b/ü+", Range="bytes=1-3")
                assert (found["Body"].read(), found["Metadata"]) == (b"ont", {"colour": "blue"})
            assert [each["Key"] for each in client.list_objects_v2(Bucket="bucket", Prefix="a b")["Contents"]] == [
                "a b/ü+"
            ]
            overridden = client.get_object(Bucket="bucket", Key="a b/ü+", ResponseContentType="text/x-y")
            assert (overridden["ContentType"], overridden["Body"].read()) == ("text/x-y", b"content")
            upload = client.create_multipart_upload(Bucket="bucket", Key="big")["UploadId"]
            part = client.upload_part(Bucket="bucket", Key="big", UploadId=upload, PartNumber=1, Body=b"part")
            parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
            client.complete_multipart_upload(Bucket="bucket", Key="big", UploadId=upload, MultipartUpload=parts)
            client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "big"}]})
            client.close()

        await asyncio.to_thread(work)


async def test_the_command_line_interface_presigns_with_version_2(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=IMMUTABLE) as rig:
        origin.store.put("bucket", "a key", b"content")
        environment = {
            **os.environ,
            "AWS_ACCESS_KEY_ID": TRAINER.access,
            "AWS_SECRET_ACCESS_KEY": TRAINER.secret,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_CONFIG_FILE": str(tmp_path / "none"),
        }
        command = [str(CLI), "--endpoint-url", rig.endpoint, "s3", "presign", "s3://bucket/a key", "--expires-in", "60"]
        run = await asyncio.to_thread(
            subprocess.run, command, env=environment, capture_output=True, text=True, check=True
        )
        url = urlsplit(run.stdout.strip())
        target = f"{url.path}?{url.query}"
        assert "AWSAccessKeyId=" in target
        for cache in ("miss", "hit-memory"):
            answer = await rig.client().unsigned("GET", target)
            assert (answer.status, answer.body, answer.headers["x-forebay-cache"]) == (200, b"content", cache)
        for changed in (target.replace("a%20key", "b%20key"), target[:-3], target.replace("trainer", "reader")):
            assert (await rig.client().unsigned("GET", changed)).status == 403
        assert (await rig.client().unsigned("DELETE", target)).status == 403
        for added in ("&tagging", "&versionId=x", "&foo=bar", "&append", "&uploads"):
            assert (await rig.client().unsigned("GET", target + added)).status == 403


async def test_presigned_v2_put_has_its_headers_in_the_query(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.boto3(signature_version="s3")
        fields = {"Bucket": "bucket", "Key": "key", "Metadata": {"colour": "blue"}, "ContentType": "text/x-y"}
        url = urlsplit(await asyncio.to_thread(client.generate_presigned_url, "put_object", fields))
        client.close()
        answer = await rig.client().unsigned(
            "PUT", f"{url.path}?{url.query}", (("Content-Type", "text/x-y"),), b"content"
        )
        assert answer.status == 200
        assert dict(origin.store.get("bucket", "key").headers) == {
            "content-type": "text/x-y",
            "x-amz-meta-colour": "blue",
        }


@pytest.mark.parametrize("secret", [READER, Secret("nobody", "x"), Secret("trainer", "wrong")], ids=str)
async def test_hit_requires_a_read_grant(tmp_path: Path, secret: Secret) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=IMMUTABLE) as rig:
        origin.store.put("bucket", "closed/key", b"content")
        client = rig.client()
        target = "/bucket/closed/key"
        good = await client.unsigned("GET", target, header_of(TRAINER, rig, "GET", target))
        assert good.body == b"content"
        for method in ("GET", "HEAD"):
            answer = await client.unsigned(method, target, header_of(secret, rig, method, target))
            assert (answer.status, b"content" in answer.body, "ETag" in answer.headers) == (403, False, False)


async def test_two_ways_of_signing_are_one_too_many(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"content")
        client: RawClient = rig.client()
        presigned = client.presign("GET", "/bucket/key")
        both = await client.unsigned("GET", presigned, header_of(TRAINER, rig, "GET", "/bucket/key"))
        assert (both.status, b"<Code>InvalidArgument</Code>" in both.body) == (400, True)
        expires = quote(str(int(time.time()) + 60))
        two = await client.unsigned("GET", f"{presigned}&AWSAccessKeyId=trainer&Expires={expires}&Signature=x")
        assert two.status == 400
