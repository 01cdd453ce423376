"""Buckets of other regions than the origin's: found by its refusals, at no other host than its own."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.clients import path_of
from harness.conformance import code
from harness.fake import actions
from harness.fake.request_log import LoggedRequest
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status
from harness.reference_sigv4 import Secret
from harness.rig import Rig

ELSEWHERE = Secret("key", "secret", "eu-west-1")
TARGET = path_of("bucket", "key")


def rig_of(origin: FakeOrigin, directory: Path, **settings: Any) -> Rig:
    """Its configuration says us-east-1, the origin's buckets are in eu-west-1."""
    configured = Secret(ELSEWHERE.access, ELSEWHERE.secret, "us-east-1")
    return Rig(origin.endpoint, configured, directory, dialect="aws", **settings)


async def test_the_region_of_a_bucket_is_learnt_once(tmp_path: Path) -> None:
    async with FakeOrigin(secrets=[ELSEWHERE]) as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", b"body")
        origin.store.put("bucket", "other", b"other")
        client = rig.client()
        assert cache_status(await client.request("GET", TARGET)) == (200, "miss")
        assert origin.log.count("GET", "GetObject") == 2
        assert (await client.request("GET", path_of("bucket", "other"))).body == b"other"
        assert origin.log.count("GET", "GetObject") == 3
        assert (await client.request("DELETE", TARGET)).status == 204
        assert (await client.request("GET", TARGET)).status == 404


async def test_an_upload_that_finds_the_region_is_to_be_repeated(tmp_path: Path) -> None:
    """Its body was read once. SDKs repeat a 503."""
    async with FakeOrigin(secrets=[ELSEWHERE]) as origin, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        first = await rig.client().request("PUT", TARGET, body=b"body")
        assert (first.status, code(first)) == (503, "ServiceUnavailable")
        boto3 = rig.boto3(retries={"total_max_attempts": 2})
        await asyncio.to_thread(boto3.put_object, Bucket="bucket", Key="key", Body=b"body")
        boto3.close()
        assert (await rig.client().request("GET", TARGET)).body == b"body"


async def test_a_warm_up_lists_in_the_region_of_the_bucket(tmp_path: Path) -> None:
    async with FakeOrigin(secrets=[ELSEWHERE]) as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", b"body")
        await rig.client().request("GET", TARGET)
        assert [each.key async for each in rig.parts.origins.list_objects("bucket", "")] == ["key"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_redirect_is_followed_to_no_other_host(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as foreign, FakeOrigin(verify=False) as origin, rig_of(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", b"body")
        foreign.store.put("bucket", "key", b"foreign")
        named = (("Location", f"{foreign.endpoint}/bucket/key"), ("x-amz-bucket-region", "eu-west-1"))
        elsewhere = actions.Respond(301, "PermanentRedirect", foreign.endpoint, named)
        origin.faults.add(elsewhere, where=_is_signed_for_us_east)
        answer = await rig.client().request(method, TARGET)
        assert (answer.status, answer.body) == (200, b"body" if method == "GET" else b"")
        assert [_is_signed_for_us_east(each) for each in origin.log.requests if each.key == "key"] == [True, False]
        # One that says the same again is passed on, and not followed.
        origin.faults.add(elsewhere)
        again = await rig.client().request(method, path_of("bucket", "other"))
        assert again.status == 301
        assert foreign.log.requests == []


def _is_signed_for_us_east(asked: S3Request | LoggedRequest) -> bool:
    return "/us-east-1/" in asked.headers.get("Authorization", "")
