"""Real clients in front of a real store: boto3 and the AWS CLI, through Forebay, in front of Swift."""

import asyncio
import io
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin

MIB = 1 << 20
SMALL_PARTS = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=3)
BODY = Random(1).randbytes(12 * MIB + 345)
AWS = Path(sys.executable).with_name("aws")


def rig_of(swift: SwiftOrigin, directory: Path, rest: str = "") -> Rig:
    return Rig(swift.endpoint, swift.secret, directory, rest=rest)


@pytest.mark.parametrize("rest", ["", '[[rules]]\npath = "**"\nwarm_on_write = true\n'], ids=["", "warm on write"])
async def test_boto3(tmp_path: Path, swift: SwiftOrigin, rest: str) -> None:
    bucket = swift.fresh_bucket()

    def use(client: Any) -> None:
        # Transfers of several parts, both ways, twice, so that the second comes from the cache.
        (tmp_path / "up").write_bytes(BODY)
        client.upload_file(str(tmp_path / "up"), bucket, "dir/large", Config=SMALL_PARTS)
        client.upload_fileobj(io.BytesIO(BODY[: 6 * MIB]), bucket, "dir/stream", Config=SMALL_PARTS)
        for _ in range(2):
            client.download_file(bucket, "dir/large", str(tmp_path / "down"), Config=SMALL_PARTS)
            assert (tmp_path / "down").read_bytes() == BODY
            sink = io.BytesIO()
            client.download_fileobj(bucket, "dir/stream", sink, Config=SMALL_PARTS)
            assert sink.getvalue() == BODY[: 6 * MIB]
        # Objects, odd keys among them.
        keys = ["a", "b//c", "ключ", "with blank+plus", "per%2Fcent"]
        for key in keys:
            client.put_object(Bucket=bucket, Key=key, Body=key.encode(), ContentType="text/x", Metadata={"k": "v"})
            for _ in range(2):
                got = client.get_object(Bucket=bucket, Key=key)
                assert (got["Body"].read(), got["ContentType"], got["Metadata"]) == (key.encode(), "text/x", {"k": "v"})
        client.put_object(Bucket=bucket, Key="a", Body=b"replaced")
        assert client.get_object(Bucket=bucket, Key="a", Range="bytes=2-4")["Body"].read() == b"pla"
        # Copies: over what is cached.
        client.copy_object(Bucket=bucket, Key="b//c", CopySource={"Bucket": bucket, "Key": "a"})
        assert client.get_object(Bucket=bucket, Key="b//c")["Body"].read() == b"replaced"
        client.copy({"Bucket": bucket, "Key": "dir/large"}, bucket, "dir/copied", Config=SMALL_PARTS)
        assert client.head_object(Bucket=bucket, Key="dir/copied")["ContentLength"] == len(BODY)
        # Listings, page by page.
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
        listed = [each["Key"] for page in pages for each in page["Contents"]]
        assert sorted(listed) == sorted([*keys, "dir/large", "dir/stream", "dir/copied"])
        # Deletions, one of them of a key that never was.
        gone = [{"Key": key} for key in (*keys, "never there")]
        answer = client.delete_objects(Bucket=bucket, Delete={"Objects": gone})
        assert len(answer["Deleted"]) == len(gone)
        for key in keys:
            with pytest.raises(ClientError, match="404"):
                client.head_object(Bucket=bucket, Key=key)
        assert client.get_object_tagging(Bucket=bucket, Key="dir/large")["TagSet"] == []
        with pytest.raises(ClientError) as lacking:
            client.put_object_tagging(Bucket=bucket, Key="dir/large", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
        assert lacking.value.response["Error"]["Code"] == "NotImplemented"  # as Swift tells it

    async with rig_of(swift, tmp_path / "rig", rest) as rig:
        client = rig.boto3()
        try:
            await asyncio.to_thread(use, client)
            await rig.wait_idle()
        finally:
            client.close()


async def test_presigned_urls_of_boto3(tmp_path: Path, swift: SwiftOrigin) -> None:
    bucket = swift.fresh_bucket()
    async with rig_of(swift, tmp_path / "rig") as rig, aiohttp.ClientSession() as session:
        client = rig.boto3(signature_version="s3v4")
        try:
            put = client.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b/ñ"})
            get = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ñ"})
        finally:
            client.close()
        for body in (b"one", b"two"):
            async with session.put(put, data=body, skip_auto_headers=("Content-Type",)) as answer:
                assert answer.status == 200, await answer.text()
            for _ in range(2):
                async with session.get(get) as answer:
                    assert (answer.status, await answer.read()) == (200, body)
        async with session.put(get, data=b"x", skip_auto_headers=("Content-Type",)) as answer:
            assert answer.status == 403


async def aws(rig: Rig, *arguments: str) -> str:
    """Runs the AWS CLI in front of Forebay; what it printed."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(rig.directory),
        "AWS_ENDPOINT_URL": rig.endpoint,
        "AWS_ACCESS_KEY_ID": TRAINER.access,
        "AWS_SECRET_ACCESS_KEY": TRAINER.secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_MAX_ATTEMPTS": "1",
    }
    process = await asyncio.create_subprocess_exec(
        str(AWS),
        *arguments,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    return out.decode()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    for name, body in {"a.txt": b"a", "sub/b b.bin": BODY[:100_000], "sub/deep/large": BODY[: 9 * MIB]}.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(body)
    return tree


async def test_the_aws_cli_syncs_both_ways(tmp_path: Path, swift: SwiftOrigin, tree: Path) -> None:
    """Its other commands: tests/compat/errands/awscli.py."""
    bucket = swift.fresh_bucket()
    async with rig_of(swift, tmp_path / "rig") as rig:
        await aws(rig, "s3", "sync", "--quiet", str(tree), f"s3://{bucket}/tree")
        await aws(rig, "s3", "sync", "--quiet", f"s3://{bucket}/tree", str(tmp_path / "back"))
        for file in ("a.txt", "sub/b b.bin", "sub/deep/large"):
            assert (tmp_path / "back" / file).read_bytes() == (tree / file).read_bytes()


async def test_boto3_puts_a_file_with_each_checksum(tmp_path: Path, swift: SwiftOrigin) -> None:
    """As the AWS CLI does, which leaves them to botocore as well."""
    bucket = swift.fresh_bucket()
    (tmp_path / "body").write_bytes(BODY[:100_000])
    async with rig_of(swift, tmp_path / "rig") as rig:
        client = rig.boto3()

        def put(algorithm: str) -> None:
            with (tmp_path / "body").open("rb") as body:
                client.put_object(Bucket=bucket, Key=algorithm, Body=body, ChecksumAlgorithm=algorithm)

        try:
            for algorithm in ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"):
                await asyncio.to_thread(put, algorithm)
                answer = await rig.client().request("GET", f"/{bucket}/{algorithm}")
                assert answer.body == BODY[:100_000], algorithm
        finally:
            client.close()
