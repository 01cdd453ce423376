"""Reads by version id: cached without limit of time, never mistaken for the current version, invalidated when the
version is deleted."""

import asyncio
from pathlib import Path

import pytest

from harness.clients import RawClient
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.rig import READER, Rig
from harness.swift import SwiftOrigin

RULES = '[[rules]]\npath = "**"\nfreshness = "60s"\n'
TARGET = "/bucket/key"
MIB = 1 << 20


async def two_versions(origin: FakeOrigin, client: RawClient, old: bytes = b"old", new: bytes = b"new!") -> list[str]:
    origin.store.create_bucket("bucket").versioning = "Enabled"
    ids = []
    for body in (old, new):
        answer = await client.request("PUT", TARGET, (), body)
        ids.append(answer.headers["x-amz-version-id"])
    return ids


@pytest.mark.parametrize("ssd", [None, "256MiB"])
async def test_a_version_is_cached_for_ever_and_apart_from_the_current_one(tmp_path: Path, ssd: str | None) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES, ssd=ssd) as rig:
        client = rig.client()
        ids = await two_versions(origin, client)
        for cache in ("miss", "hit-"):
            for target, body, version in (
                (f"{TARGET}?versionId={ids[0]}", b"old", ids[0]),
                (TARGET, b"new!", ids[1]),
            ):
                answer = await client.request("GET", target)
                assert (answer.body, answer.headers["x-amz-version-id"]) == (body, version)
                assert answer.headers["x-forebay-cache"].startswith(cache)
        rig.advance_clock(10_000)
        origin.log.reset()
        target = f"{TARGET}?versionId={ids[0]}"
        assert (await client.request("GET", target, (("Range", "bytes=1-1"),))).body == b"l"
        head = await client.request("HEAD", target)
        assert (head.headers["Content-Length"], head.headers["x-amz-version-id"]) == ("3", ids[0])
        assert origin.log.count("GET") + origin.log.count("HEAD") == 0


async def test_a_version_that_is_also_the_current_one_shares_its_bytes(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client = rig.client()
        ids = await two_versions(origin, client)
        await client.request("GET", TARGET)
        origin.log.reset()
        answer = await client.request("GET", f"{TARGET}?versionId={ids[1]}", (("Range", "bytes=0-1"),))
        assert (answer.body, answer.headers["x-amz-version-id"]) == (b"ne", ids[1])
        assert [seen.target for seen in origin.log.requests] == [f"{TARGET}?versionId={ids[1]}"]


async def test_blocks_of_a_large_version_are_fetched_by_its_id(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client = rig.client()
        old = bytes(range(256)) * (12 * 4096)
        ids = await two_versions(origin, client, old, b"n" * len(old))
        target = f"{TARGET}?versionId={ids[0]}"
        assert (await client.request("GET", target)).body == old
        assert (await client.request("GET", target, (("Range", "bytes=-5"),))).body == old[-5:]
        assert (await client.request("GET", TARGET)).body == b"n" * len(old)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_version_that_was_deleted_through_forebay_is_gone(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client = rig.client()
        ids = await two_versions(origin, client)
        target = f"{TARGET}?versionId={ids[0]}"
        await client.request(method, target)
        assert (await client.request("DELETE", target)).status == 204
        assert (await client.request(method, target)).status == 404
        assert (await client.request("GET", TARGET)).body == b"new!"


async def test_read_begun_before_a_version_delete_caches_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client, gate = rig.client(), Gate()
        ids = await two_versions(origin, client)
        target = f"{TARGET}?versionId={ids[0]}"
        origin.faults.add(actions.HoldHead(gate), method="GET", times=1)
        async with asyncio.TaskGroup() as readers:
            readers.create_task(client.request("GET", target))
            await gate.reached()
            await client.request("DELETE", target)
            assert (await client.request("GET", target)).status == 404
            gate.open()
        await rig.wait_idle()
        assert (await client.request("GET", target)).status == 404


async def test_null_versions_and_delete_markers_are_not_cached(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client = rig.client()
        origin.store.put("bucket", "key", b"null version")
        for body in (b"null version", b"another null version"):
            origin.store.put("bucket", "key", body)
            answer = await client.request("GET", f"{TARGET}?versionId=null")
            assert (answer.body, answer.headers["x-forebay-cache"]) == (body, "bypass")
        await two_versions(origin, client)
        assert (await client.request("GET", f"{TARGET}?versionId=unknown")).status == 404
        marker = (await client.request("DELETE", TARGET)).headers["x-amz-version-id"]
        for _ in range(2):
            origin.log.reset()
            assert (await client.request("GET", f"{TARGET}?versionId={marker}")).status == 405
            assert len(origin.log.requests) == 1
        assert (await client.request("GET", f"{TARGET}?versionId=")).headers["x-forebay-cache"] == "bypass"


async def test_cached_version_requires_a_read_grant(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client = rig.client()
        ids = await two_versions(origin, client)
        await client.request("GET", f"{TARGET}?versionId={ids[0]}")
        for method in ("GET", "HEAD"):
            assert (await rig.client(READER).request(method, f"{TARGET}?versionId={ids[0]}")).status == 403


async def test_a_change_of_tags_is_seen_in_a_cached_version(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client = rig.client()
        ids = await two_versions(origin, client)
        target = f"{TARGET}?versionId={ids[1]}"
        assert "x-amz-tagging-count" not in (await client.request("GET", target)).headers
        tags = b"<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"
        assert (await client.request("PUT", f"{TARGET}?tagging", (), tags)).status == 200
        assert (await client.request("GET", target)).headers["x-amz-tagging-count"] == "1"


async def test_part_is_forwarded_and_its_size_not_recorded(tmp_path: Path) -> None:
    async with FakeOrigin(smallest_part=1) as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        client, boto = rig.client(), rig.boto3()

        def upload() -> None:
            boto.create_bucket(Bucket="bucket")
            upload = boto.create_multipart_upload(Bucket="bucket", Key="key")["UploadId"]
            parts = []
            for number, body in ((1, b"first"), (2, b"second")):
                part = boto.upload_part(Bucket="bucket", Key="key", UploadId=upload, PartNumber=number, Body=body)
                parts.append({"PartNumber": number, "ETag": part["ETag"]})
            boto.complete_multipart_upload(
                Bucket="bucket", Key="key", UploadId=upload, MultipartUpload={"Parts": parts}
            )
            boto.close()

        await asyncio.to_thread(upload)
        for method in ("HEAD", "GET"):
            for number, size in ((1, "5"), (2, "6")):
                part = await client.request(method, f"{TARGET}?partNumber={number}")
                assert (part.status, part.headers["Content-Length"]) == (206, size)
                assert (part.headers["x-amz-mp-parts-count"], part.headers["x-forebay-cache"]) == ("2", "bypass")
            whole = await client.request(method, TARGET)
            assert (whole.headers["Content-Length"], "x-amz-mp-parts-count" in whole.headers) == ("11", False)


async def test_versions_at_a_real_origin(tmp_path: Path, swift: SwiftOrigin) -> None:
    bucket = await asyncio.to_thread(swift.fresh_bucket)
    async with Rig(swift.endpoint, swift.secret, tmp_path, rest=RULES) as rig:
        boto = rig.boto3()

        def work() -> None:
            boto.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
            ids = [boto.put_object(Bucket=bucket, Key="key", Body=body)["VersionId"] for body in (b"old", b"new!")]
            for _ in range(2):
                for version, body in zip(ids, (b"old", b"new!"), strict=True):
                    found = boto.get_object(Bucket=bucket, Key="key", VersionId=version, ResponseContentType="a/b")
                    assert (found["Body"].read(), found["VersionId"], found["ContentType"]) == (body, version, "a/b")
            before = swift.tally(bucket, "GET", "HEAD")
            assert boto.get_object(Bucket=bucket, Key="key", VersionId=ids[0], Range="bytes=1-")["Body"].read() == b"ld"
            assert swift.tally(bucket, "GET", "HEAD") == before
            boto.delete_object(Bucket=bucket, Key="key", VersionId=ids[0])
            with pytest.raises(boto.exceptions.ClientError) as gone:
                boto.get_object(Bucket=bucket, Key="key", VersionId=ids[0])
            assert gone.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
            assert boto.get_object(Bucket=bucket, Key="key")["Body"].read() == b"new!"
            boto.close()

        await asyncio.to_thread(work)
