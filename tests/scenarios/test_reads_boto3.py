"""Reads by an unmodified boto3, from a real object store."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from harness.clients import RawClient, boto_client
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin

MIB = 1 << 20
LARGE = Random(3).randbytes(MIB) * 40


@pytest.fixture
async def rig(swift: SwiftOrigin, tmp_path: Path) -> AsyncIterator[Rig]:
    async with Rig(swift.endpoint, swift.secret, tmp_path) as running:
        yield running


@pytest.fixture
async def client(rig: Rig) -> AsyncIterator[Any]:
    boto3 = rig.boto3()
    yield boto3
    await asyncio.to_thread(boto3.close)


@pytest.fixture(scope="module")
def bucket(swift: SwiftOrigin) -> str:
    name = swift.fresh_bucket()
    direct = boto_client(swift.endpoint, swift.secret)
    direct.put_object(Bucket=name, Key="large", Body=LARGE)
    direct.put_object(
        Bucket=name, Key="small", Body=b"content" * 1000, ContentType="text/plain", Metadata={"colour": "blue"}
    )
    direct.close()
    return name


async def test_download_file_of_40_mebibytes(client: Any, bucket: str, tmp_path: Path) -> None:
    for name in ("cold", "warm"):
        await asyncio.to_thread(client.download_file, bucket, "large", str(tmp_path / name))
        assert (tmp_path / name).read_bytes() == LARGE


async def test_get_and_head_and_ranges(client: Any, bucket: str) -> None:
    for _ in range(2):
        head = await asyncio.to_thread(client.head_object, Bucket=bucket, Key="small")
        got = await asyncio.to_thread(client.get_object, Bucket=bucket, Key="small")
        assert await asyncio.to_thread(got["Body"].read) == b"content" * 1000
        assert (got["ContentType"], got["Metadata"]) == ("text/plain", {"colour": "blue"})
        for field in ("ETag", "LastModified", "ContentLength", "ContentType", "Metadata"):
            assert got[field] == head[field]
        for asked, body in (("bytes=0-6", b"content"), ("bytes=-3", b"ent"), ("bytes=6993-", b"content")):
            part = await asyncio.to_thread(client.get_object, Bucket=bucket, Key="small", Range=asked)
            assert await asyncio.to_thread(part["Body"].read) == body
            assert part["ResponseMetadata"]["HTTPStatusCode"] == 206


async def test_conditional_gets(client: Any, bucket: str) -> None:
    etag = (await asyncio.to_thread(client.head_object, Bucket=bucket, Key="small"))["ETag"]
    got = await asyncio.to_thread(client.get_object, Bucket=bucket, Key="small", IfMatch=etag)
    assert await asyncio.to_thread(got["Body"].read) == b"content" * 1000
    for condition, status in (({"IfNoneMatch": etag}, 304), ({"IfMatch": '"other"'}, 412)):
        with pytest.raises(ClientError) as refused:
            await asyncio.to_thread(client.get_object, Bucket=bucket, Key="small", **condition)
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == status


async def test_errors_are_those_boto3_knows(client: Any, bucket: str) -> None:
    with pytest.raises(client.exceptions.NoSuchKey):
        await asyncio.to_thread(client.get_object, Bucket=bucket, Key="none")
    with pytest.raises(client.exceptions.NoSuchKey):
        await asyncio.to_thread(client.get_object, Bucket=bucket, Key="none", Range="bytes=-5")
    with pytest.raises(ClientError) as refused:
        await asyncio.to_thread(client.get_object, Bucket=bucket, Key="small", Range="bytes=7000-")
    assert refused.value.response["Error"]["Code"] == "InvalidRange"


async def test_a_presigned_get(rig: Rig, client: Any, bucket: str) -> None:
    url = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "small"}, ExpiresIn=60)
    for _ in range(2):
        answer = await RawClient(rig.endpoint, TRAINER).unsigned("GET", url.removeprefix(rig.endpoint))
        assert (answer.status, answer.body) == (200, b"content" * 1000)
    spoilt = await RawClient(rig.endpoint, TRAINER).unsigned("GET", f"{url.removeprefix(rig.endpoint)[:-1]}x")
    assert spoilt.status == 403
