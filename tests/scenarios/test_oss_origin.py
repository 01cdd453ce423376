"""Alibaba OSS as the origin: what only it does, and what becomes of it when it lies.

That clients of S3 find in it what they find elsewhere is held by tests/origin/conformance, which runs against Forebay
in front of the stand-in too.
"""

import asyncio
from base64 import b64encode
from dataclasses import replace
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from harness.clients import path_of, query_of
from harness.conformance import code, parsed, texts
from harness.fake import actions
from harness.fake.actions import change_headers
from harness.fake.content import Stored
from harness.fake.request_log import LoggedRequest
from harness.fake.s3_request import S3Request
from harness.oss_origin import OSS_SECRET, OssOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig

BLOCK = 64 * 1024
BODY = bytes(range(256)) * 1000  # four blocks, the last one short
OBJECT = path_of("bucket", "key")
RULES = '[[rules]]\npath = "**"\nblock = "64KiB"\nfreshness = "immutable"\n'
LYING = change_headers(x_oss_hash_crc64ecma="1")
ONE_BLOCK_A_READ = 'max_run = "64KiB"\ngap = "0"\nparallel = 1'


def rig_over(behind: OssOrigin, directory: Path, **more: Any) -> Rig:
    return Rig(behind.endpoint, behind.secret, directory, **{"dialect": "oss", "rest": RULES, **more})


def asked(origin: OssOrigin) -> list[LoggedRequest]:
    """What was asked in somebody's name: not whether anybody is there."""
    return [each for each in origin.log.requests if "Authorization" in each.headers]


def last_of(asked: S3Request) -> int:
    """The last byte of a range; -1 where none is asked for."""
    return int((asked.range or "--1").partition("-")[2])


async def test_every_range_is_requested_strictly(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path, origin=ONE_BLOCK_A_READ) as rig:
        origin.store.put("bucket", "key", BODY)
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.body) == (200, BODY)
        ranged = origin.log.matching("GET", "GetObject")
        assert len(ranged) == 4
        assert all(each.headers["x-oss-range-behavior"] == "standard" and each.range for each in ranged)
        assert all("x-oss-range-behavior" not in each.headers for each in origin.log.requests if not each.range)


async def test_refused_range_beyond_the_end_is_retried_within_it(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        origin.faults.add(actions.Respond(416, "InvalidRange"), where=lambda asked: last_of(asked) >= len(BODY))
        for cache in ("miss", "hit-memory"):
            answer = await rig.client().request("GET", OBJECT)
            assert (answer.status, answer.body, answer.headers["x-forebay-cache"]) == (200, BODY, cache)
        assert origin.log.ranges("key")[-1] == f"bytes=0-{len(BODY) - 1}"


@pytest.mark.parametrize("accelerated", ["true", "false"])
async def test_a_range_that_is_none_is_ignored(tmp_path: Path, accelerated: str) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path, rest=f"{RULES}accelerate = {accelerated}\n") as rig:
        origin.store.put("bucket", "key", BODY)
        answer = await rig.client().request("GET", OBJECT, [("Range", "bytes=9-8")])
        assert (answer.status, answer.body) == (200, BODY)


async def test_the_whole_for_a_range_is_refused(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        origin.faults.add(actions.IgnoreRange(), range=True)
        for headers in ((), (("Range", "bytes=5-9"),)):
            answer = await rig.client().request("GET", OBJECT, headers)
            assert (answer.status, code(answer)) == (503, "ServiceUnavailable")


@pytest.mark.parametrize("size", [0, 1, BLOCK, len(BODY)])
async def test_object_is_cached_without_an_oss_checksum_for_s3(tmp_path: Path, size: int) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY[:size], x_amz_meta_colour="blue")
        for _ in range(2):
            answer = await rig.client().request("GET", OBJECT)
            assert (answer.status, answer.body) == (200, BODY[:size])
            assert answer.headers["x-amz-meta-colour"] == "blue"
            assert not [name for name, _ in answer.pairs if name.lower().startswith("x-oss")]
        assert answer.headers["x-forebay-cache"] == "hit-memory"
        assert len(origin.log.matching("GET", "GetObject")) == 1


@pytest.mark.parametrize("several", [False, True], ids=["one fetch", "a fetch a block"])
async def test_fill_with_a_wrong_checksum_is_never_sent_whole(tmp_path: Path, several: bool) -> None:
    bounds = ONE_BLOCK_A_READ if several else ""
    async with OssOrigin() as origin, rig_over(origin, tmp_path, origin=bounds) as rig:
        origin.store.put("bucket", "key", BODY)
        lying = origin.faults.add(LYING)
        answer = await rig.client().request("GET", OBJECT)
        assert answer.aborted or answer.status >= 500
        assert len(answer.body) < len(BODY)
        origin.faults.remove(lying)
        for _ in range(2):
            assert (await rig.client().request("GET", OBJECT)).body == BODY
        await rig.wait_idle()


async def test_damaged_small_object_is_fetched_again(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY[:100])
        origin.faults.add(LYING, method="GET", times=1)
        answer = await rig.client().request("GET", OBJECT)
        assert (answer.status, answer.body) == (200, BODY[:100])
        assert origin.log.count("GET", "GetObject") == 2


async def test_blocks_of_a_fill_that_was_wrong_are_not_kept(tmp_path: Path) -> None:
    """Read block by block by ranges: the last one is refused, and with it go those that were handed out."""
    async with OssOrigin() as origin, rig_over(origin, tmp_path, origin=ONE_BLOCK_A_READ) as rig:
        origin.store.put("bucket", "key", BODY)
        lying = origin.faults.add(LYING)
        for number in (2, 0, 1):
            start = number * BLOCK
            answer = await rig.client().request("GET", OBJECT, (("Range", f"bytes={start}-{start + BLOCK - 1}"),))
            assert (answer.status, answer.body) == (206, BODY[start : start + BLOCK])
        origin.faults.remove(lying)
        await rig.client().request("GET", OBJECT, (("Range", f"bytes={3 * BLOCK}-"),))
        await rig.wait_idle()
        before = origin.log.count("GET", "GetObject")
        assert (await rig.client().request("GET", OBJECT)).body == BODY
        assert origin.log.count("GET", "GetObject") - before >= 3


async def test_blocks_of_a_version_that_was_wrong_are_not_kept(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path, origin=ONE_BLOCK_A_READ) as rig:
        origin.store.create_bucket("bucket").versioning = "Enabled"
        version = origin.store.put("bucket", "key", BODY).version_id
        lying = origin.faults.add(LYING)
        answer = await rig.client().request("GET", f"{OBJECT}?versionId={version}")
        assert answer.aborted
        origin.faults.remove(lying)
        before = origin.log.count("GET", "GetObject")
        assert (await rig.client().request("GET", f"{OBJECT}?versionId={version}")).body == BODY
        assert origin.log.count("GET", "GetObject") - before == 4


async def test_forwarded_whole_object_is_verified_by_checksum(tmp_path: Path) -> None:
    rules = '[[rules]]\npath = "**"\naccelerate = false\n'
    async with OssOrigin() as origin, rig_over(origin, tmp_path, rest=rules) as rig:
        origin.store.put("bucket", "key", BODY)
        for number, headers in enumerate(((), (("Range", "bytes=1-2"),))):
            answer = await rig.client().request("GET", OBJECT, headers)
            assert (answer.aborted, answer.body) == (False, BODY[1:3] if number else BODY)
        origin.faults.add(LYING)
        answer = await rig.client().request("GET", OBJECT)
        assert answer.aborted
        assert len(answer.body) < len(BODY)
        ranged = await rig.client().request("GET", OBJECT, (("Range", "bytes=1-2"),))
        assert (ranged.aborted, ranged.body) == (False, BODY[1:3])


@pytest.mark.parametrize("warm", [False, True], ids=["passed on", "warmed on write"])
async def test_an_upload_that_did_not_arrive_as_it_left_has_failed(tmp_path: Path, warm: bool) -> None:
    rules = RULES + ("warm_on_write = true\n" if warm else "")
    async with OssOrigin() as origin, rig_over(origin, tmp_path, rest=rules) as rig:
        client = rig.client()
        origin.store.put("bucket", "key", b"before")
        assert (await client.request("GET", OBJECT)).body == b"before"
        lying = origin.faults.add(LYING, operation="PutObject")
        answer = await client.request("PUT", OBJECT, (), BODY)
        assert (answer.status, code(answer)) == (503, "ServiceUnavailable")
        origin.store.put("bucket", "key", b"what really arrived")
        assert (await client.request("GET", OBJECT)).body == b"what really arrived"
        origin.faults.remove(lying)
        assert (await client.request("PUT", OBJECT, (), BODY)).status == 200
        assert (await client.request("GET", OBJECT)).body == BODY


async def test_a_completed_upload_is_held_to_the_checksums_of_its_parts(tmp_path: Path) -> None:
    parts = [BODY[: 150 << 10], BODY[150 << 10 :]]
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")

        async def upload() -> int:
            begun = await rig.client().request("POST", f"{OBJECT}?uploads=")
            upload_id = texts(begun, "UploadId")[0]
            etags = []
            for number, part in enumerate(parts, 1):
                query = query_of({"partNumber": str(number), "uploadId": upload_id})
                sent = await rig.client().request("PUT", f"{OBJECT}?{query}", (), part)
                assert sent.status == 200
                etags.append(sent.headers["ETag"])
            listed = "".join(
                f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
                for number, etag in enumerate(etags, 1)
            )
            document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
            done = await rig.client().request("POST", f"{OBJECT}?uploadId={upload_id}", (), document)
            return done.status

        assert await upload() == 200
        assert (await rig.client().request("GET", OBJECT)).body == BODY
        origin.faults.add(LYING, operation="CompleteMultipartUpload", times=1)
        assert await upload() == 503
        origin.faults.add(LYING, operation="UploadPart", times=1)
        with pytest.raises(AssertionError):
            await upload()


@pytest.mark.parametrize("kind", ["Appendable", "Symlink"])
async def test_content_changed_under_its_etag_is_not_cached(tmp_path: Path, kind: str) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        version = origin.store.put("bucket", "key", BODY[:10], x_oss_object_type=kind)
        home = origin.store.bucket("bucket")
        for size in (10, 20, 30):
            origin.store.swap(home, home.versions["key"][-1], replace(version, content=Stored(BODY[:size])))
            answer = await rig.client().request("GET", OBJECT)
            assert (answer.status, answer.body, answer.headers["x-forebay-cache"]) == (200, BODY[:size], "bypass")


async def test_documents_have_the_headers_of_s3(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        origin.store.put("bucket", "other", BODY)
        client = rig.client()
        copied = await client.request("PUT", path_of("bucket", "copy"), [("x-amz-copy-source", "/bucket/key")])
        body = b"<Delete><Quiet>true</Quiet><Object><Key>other</Key></Object></Delete>"
        digest = ("Content-MD5", b64encode(md5(body, usedforsecurity=False).digest()).decode())
        deleted = await client.request("POST", f"{path_of('bucket')}?delete=", [digest], body)
        for answer in (copied, deleted):
            assert (answer.status, "ETag" in answer.headers) == (200, False), answer.body
            assert answer.headers["Content-Type"] == "application/xml"


async def test_an_archived_object_is_the_origin_s_to_refuse(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY[:10], x_amz_storage_class="DEEP_ARCHIVE")
        head = await rig.client().request("HEAD", OBJECT)
        assert head.headers["x-amz-storage-class"] == "DEEP_ARCHIVE"
        origin.faults.add(actions.Respond(403, "InvalidObjectState"))
        assert code(await rig.client().request("GET", OBJECT)) == "InvalidObjectState"


async def test_a_security_token_goes_along(tmp_path: Path) -> None:
    secret = replace(OSS_SECRET, token="of-the-hour")
    more = 'session_token = "of-the-hour"'
    async with OssOrigin(secrets=[secret]) as origin, rig_over(origin, tmp_path, origin=more) as rig:
        origin.store.put("bucket", "key", BODY)
        assert (await rig.client().request("GET", OBJECT)).body == BODY
        assert asked(origin)[0].headers["x-oss-security-token"] == "of-the-hour"


async def test_a_key_with_its_own_credential_there(tmp_path: Path) -> None:
    theirs = Secret("ram-user", "ram-secret", OSS_SECRET.region)
    own = (
        '[[auth.keys]]\nid = "own"\nsecret = "own-secret"\norigin_access_key = "ram-user"\n'
        'origin_secret_key = "ram-secret"\ngrants = [{ path = "**", allow = ["read"] }]\n'
    )
    async with OssOrigin(secrets=[OSS_SECRET, theirs]) as origin, rig_over(origin, tmp_path, rest=own + RULES) as rig:
        origin.store.put("bucket", "key", BODY)
        answer = await rig.client(Secret("own", "own-secret")).request("GET", OBJECT)
        assert answer.body == BODY
        assert "ram-user/" in asked(origin)[-1].headers["Authorization"]


async def test_operations_oss_lacks_are_refused_locally(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        for method, target, headers in (
            ("GET", f"{OBJECT}?attributes=", ()),
            ("GET", f"{OBJECT}?torrent=", ()),
            ("GET", "/bucket?policy=", ()),
            ("PUT", "/bucket?lifecycle=", ()),
            ("PUT", OBJECT, (("x-amz-acl", "bucket-owner-full-control"),)),
            ("PUT", OBJECT, (("x-amz-website-redirect-location", "/"),)),
            ("PUT", OBJECT, (("x-amz-storage-class", "GLACIER_IR"),)),
            ("PUT", OBJECT, (("x-amz-write-offset-bytes", "0"),)),
            ("PUT", OBJECT, (("If-Match", '"0"'),)),
            ("DELETE", OBJECT, (("If-Match", '"0"'),)),
            ("GET", "/bucket?future-thing=", ()),
        ):
            answer = await rig.client().request(method, target, headers)
            assert (answer.status, code(answer)) == (501, "NotImplemented"), (method, target, headers)
        assert asked(origin) == []


@pytest.mark.parametrize("bucket", ["Upper", "dotted.name", "s3", "under_score", "ab"])
async def test_a_name_that_can_be_no_bucket_of_oss_gets_into_no_host(tmp_path: Path, bucket: str) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        answer = await rig.client().request("GET", path_of(bucket, "key"))
        assert (answer.status, code(answer)) == (400, "InvalidBucketName")
        assert asked(origin) == []


async def test_access_lists_both_ways(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        origin.store.put("bucket", "key", BODY)
        answer = await rig.client().request("GET", f"{OBJECT}?acl=")
        assert [each.text for each in parsed(answer).iter("Permission")] == ["FULL_CONTROL"]
        assert (await rig.client().request("PUT", f"{OBJECT}?acl=", (("x-amz-acl", "public-read"),))).status == 200
        assert asked(origin)[-1].headers["x-oss-object-acl"] == "public-read"
        assert (await rig.client().request("PUT", "/bucket?acl=", (("x-amz-acl", "private"),))).status == 200
        assert asked(origin)[-1].headers["x-oss-acl"] == "private"


async def test_a_prefix_is_warmed(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        keys = [f"set/ü b+{number:04}" for number in range(1003)]
        for key in (*keys, "other"):
            origin.store.put("bucket", key, b"x")
        listed = [each async for each in rig.parts.origins.list_objects("bucket", "set/")]
        assert [each.key for each in listed] == keys
        assert origin.log.count("GET", "ListObjectsV2") == 2


def round_trip(rig: Rig) -> None:
    """boto3 as it comes: path style, its default checksums, aws-chunked where it likes; no setting of the client."""
    client = rig.boto3(TRAINER)
    try:
        client.create_bucket(Bucket="made-here")
        client.put_object(
            Bucket="made-here", Key="a b/ü+", Body=BODY, Metadata={"colour": "blue"}, StorageClass="STANDARD_IA"
        )
        got = client.get_object(Bucket="made-here", Key="a b/ü+")
        assert (got["Body"].read(), got["Metadata"], got["StorageClass"]) == (BODY, {"colour": "blue"}, "STANDARD_IA")
        listed = client.list_objects_v2(Bucket="made-here", Prefix="a b/")["Contents"]
        assert [(each["Key"], each["StorageClass"]) for each in listed] == [("a b/ü+", "STANDARD_IA")]
        client.copy_object(Bucket="made-here", Key="copy", CopySource={"Bucket": "made-here", "Key": "a b/ü+"})
        client.put_object_tagging(Bucket="made-here", Key="copy", Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
        assert client.get_object_tagging(Bucket="made-here", Key="copy")["TagSet"] == [{"Key": "k", "Value": "v"}]
        with pytest.raises(client.exceptions.ClientError, match="PreconditionFailed"):
            client.put_object(Bucket="made-here", Key="copy", Body=b"", IfNoneMatch="*")
        wanted = {"Objects": [{"Key": "copy"}, {"Key": "a b/ü+"}, {"Key": "never was"}]}
        assert len(client.delete_objects(Bucket="made-here", Delete=wanted)["Deleted"]) == 3
        assert client.get_bucket_location(Bucket="made-here")["LocationConstraint"] == "test-1"
        client.delete_bucket(Bucket="made-here")
        assert [each["Name"] for each in client.list_buckets()["Buckets"]] == []
    finally:
        client.close()


async def test_boto3_needs_no_setting(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_over(origin, tmp_path) as rig:
        await asyncio.to_thread(round_trip, rig)
