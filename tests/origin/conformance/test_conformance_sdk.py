"""boto3 as users use it: what its own signer, checksums, parser and transfer manager make of the origin."""

import asyncio
import io
from random import Random
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from harness.clients import boto_client
from harness.conformance import Subject

BODY = Random(1).randbytes(11 << 20)


def round_trip(client: Any, bucket: str) -> None:
    config = TransferConfig(multipart_threshold=5 << 20, multipart_chunksize=5 << 20, max_concurrency=2)
    client.upload_fileobj(io.BytesIO(BODY), bucket, "sdk/big", Config=config, ExtraArgs={"Metadata": {"a": "b"}})
    into = io.BytesIO()
    client.download_fileobj(bucket, "sdk/big", into, Config=config)
    assert into.getvalue() == BODY
    head = client.head_object(Bucket=bucket, Key="sdk/big", ChecksumMode="ENABLED")
    assert (head["Metadata"], head["ContentLength"]) == ({"a": "b"}, len(BODY))


def small_things(client: Any, bucket: str) -> None:
    client.put_object(Bucket=bucket, Key="sdk/ünï +code", Body=b"1234", ContentType="text/x")
    got = client.get_object(Bucket=bucket, Key="sdk/ünï +code")
    assert (got["Body"].read(), got["ContentType"]) == (b"1234", "text/x")
    got = client.get_object(Bucket=bucket, Key="sdk/ünï +code", Range="bytes=1-2", IfMatch=got["ETag"])
    assert (got["Body"].read(), got["ContentRange"]) == (b"23", "bytes 1-2/4")
    keys = [each["Key"] for each in client.list_objects_v2(Bucket=bucket, Prefix="sdk/ü")["Contents"]]
    assert keys == ["sdk/ünï +code"]
    client.copy_object(Bucket=bucket, Key="sdk/copy", CopySource={"Bucket": bucket, "Key": "sdk/ünï +code"})
    deleted = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "sdk/copy"}, {"Key": "sdk/ünï +code"}]})
    assert len(deleted["Deleted"]) == 2
    with pytest.raises(ClientError) as refused:
        client.get_object(Bucket=bucket, Key="sdk/copy")
    assert refused.value.response["Error"]["Code"] == "NoSuchKey"


async def test_transfers(origin: Subject) -> None:
    client = boto_client(origin.endpoint, origin.secret)
    try:
        await asyncio.to_thread(round_trip, client, origin.bucket)
    finally:
        client.close()


async def test_the_usual_calls(origin: Subject) -> None:
    client = boto_client(origin.endpoint, origin.secret)
    try:
        await asyncio.to_thread(small_things, client, origin.bucket)
    finally:
        client.close()
