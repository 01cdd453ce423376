"""Requests about members of packs that are no plain reads: the response is that to an object that was put at once."""

import asyncio
from pathlib import Path

import pytest

from harness import pack_jobs as packing
from harness.bucket_owners import EXPECTED, NO_OWNER, OTHER_OWNER, OWNER, owned
from harness.clients import RawClient, path_of
from harness.conformance import texts
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.oss_origin import OssOrigin
from harness.packed_rig import OBJECTS, pack, rig_of
from harness.rig import READER

KEY, EMPTY, TYPE = "train/007.jpg", "train/empty.jpg", "image/jpeg"
PACKED = {**OBJECTS, EMPTY: b""}
COMPARED = ("Content-Length", "Content-Range", "Content-Type", "Content-Disposition", "ETag")
SEVERAL = ("Range", "bytes=0-1,3-4")
OTHER = '"0123456789abcdef0123456789abcdef"'


@pytest.mark.parametrize("key", [KEY, EMPTY], ids=["bytes", "empty"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", [SEVERAL]),
        ("", [SEVERAL, ("If-Match", OTHER)]),
        ("response-content-type=a%2Fb", [SEVERAL]),
        ("", [("x-amz-request-payer", "requester")]),
        ("", [("x-amz-request-payer", "requester"), ("Range", "bytes=1-3")]),
        ("partNumber=1", []),
        ("partNumber=1", [("x-amz-checksum-mode", "ENABLED")]),
        ("partNumber=1", [("If-Match", OTHER)]),
        ("partNumber=1", [("If-None-Match", "*")]),
        ("partNumber=1", [("If-Range", OTHER)]),
        ("partNumber=1", [("Range", "bytes=0-1")]),
        ("partNumber=1&response-content-disposition=inline", []),
        ("partNumber=2", []),
        ("partNumber=0", []),
        ("partNumber=10001", []),
        ("partNumber=" + "9" * 400, []),
        ("partNumber=x", []),
    ],
)
async def test_reads_with_parameters_are_those_of_an_object(
    tmp_path: Path, method: str, key: str, query: str, headers: list[tuple[str, str]]
) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, PACKED)
        origin.store.put("bucket", "loose", PACKED[key], content_type=TYPE)
        packed, loose = [
            await client.request(method, f"{path_of('bucket', name)}?{query}".rstrip("?"), headers)
            for client, name in ((rig.client(), key), (RawClient(origin.endpoint, origin.secret), "loose"))
        ]
        assert packed.status == loose.status
        if packed.status < 400:
            assert packed.body == loose.body
            assert {name: packed.headers.get(name) for name in COMPARED} == {
                name: loose.headers.get(name) for name in COMPARED
            }
        elif method == "GET":
            assert texts(packed, "Code") == texts(loose, "Code")


async def test_an_object_that_hides_a_member_is_read_at_the_origin(tmp_path: Path) -> None:
    """It has the parts that it was uploaded in."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, PACKED)
        client = rig.client()
        assert (await client.request("PUT", path_of("bucket", KEY), (), b"written")).status == 200
        assert (await client.request("GET", f"{path_of('bucket', KEY)}?partNumber=1")).body == b"written"
        assert origin.log.count("GET", key=KEY) == 1


async def test_who_may_not_read_a_member_reads_no_part_of_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, PACKED)
        client = rig.client(READER)
        assert (await client.request("GET", f"{path_of('bucket', KEY)}?partNumber=1")).status == 403
        assert (await client.request("GET", path_of("bucket", KEY), (SEVERAL,))).status == 403


async def test_what_members_have_not_is_said(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        s3 = rig.boto3()

        def dialogue() -> None:
            named = {"Bucket": "bucket", "Key": KEY}
            assert s3.get_object_tagging(**named)["TagSet"] == []
            found = s3.get_object_attributes(**named, ObjectAttributes=["ETag", "ObjectSize", "Checksum"])
            assert found["ObjectSize"] == len(OBJECTS[KEY])
            assert f'"{found["ETag"]}"' == s3.head_object(**named)["ETag"]
            for call in (s3.get_object_acl, s3.get_object_retention):
                with pytest.raises(s3.exceptions.ClientError, match=r"MethodNotAllowed.*member of a pack"):
                    call(**named)
            with pytest.raises(s3.exceptions.ClientError, match="MethodNotAllowed"):
                s3.put_object_tagging(**named, Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
            with pytest.raises(s3.exceptions.ClientError, match=r"InvalidRequest.*customer-algorithm"):
                s3.get_object(**named, SSECustomerAlgorithm="AES256", SSECustomerKey=bytes(32))
            with pytest.raises(s3.exceptions.ClientError, match="NoSuchKey"):
                s3.get_object_tagging(Bucket="bucket", Key="train/none")

        await asyncio.to_thread(dialogue)
        s3.close()
        assert (await rig.client(READER).request("GET", f"{path_of('bucket', KEY)}?tagging")).status == 403


READS = [("GET", ""), ("HEAD", ""), ("GET", "?partNumber=1"), ("GET", "?versionId=null"), ("GET", "?tagging")]


@pytest.mark.parametrize(("method", "query"), READS)
async def test_the_origin_compares_the_owner(tmp_path: Path, method: str, query: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        owned(origin)
        client, target = rig.client(), path_of("bucket", KEY) + query
        plain = await client.request(method, target)
        allowed = await client.request(method, target, ((EXPECTED, OWNER),))
        assert (allowed.status, allowed.body) == (plain.status, plain.body)
        assert plain.status < 300
        for owner, status in ((OTHER_OWNER, 403), (NO_OWNER, 400), ("", 403)):
            refused = await client.request(method, target, ((EXPECTED, owner),))
            assert refused.status == status
            assert OBJECTS[KEY] not in refused.body
        both = ((EXPECTED, OWNER), (EXPECTED, OTHER_OWNER))
        assert (await client.request(method, target, both)).status in {400, 403}


async def test_an_owner_that_nobody_can_compare_is_refused(tmp_path: Path) -> None:
    async with OssOrigin() as origin, rig_of(origin, tmp_path, dialect="oss") as rig:
        packing.fill(origin)
        await packing.run_job(rig)
        for key in packing.OBJECTS:
            origin.store.delete("bucket", key)
        await rig.restart()
        key = "train/007/a.jpg"
        assert await packing.body(rig.client(), key) == packing.OBJECTS[key]
        for target in (path_of("bucket", key), "/bucket?prefix=train%2F"):
            assert (await rig.client().request("GET", target, ((EXPECTED, OWNER),))).status == 501


async def test_an_owner_that_can_not_be_compared_now_is_a_failure(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert (await rig.client().request("GET", path_of("bucket", KEY))).status == 200
        origin.faults.add(Respond(500, "InternalError"), method="HEAD")
        answer = await rig.client().request("GET", path_of("bucket", KEY), ((EXPECTED, OWNER),))
        assert answer.status == 503


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_member_is_the_null_version(tmp_path: Path, method: str) -> None:
    """Where the bucket has no versions, as S3 answers there."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        client, target = rig.client(), f"{path_of('bucket', KEY)}?versionId=null"
        found = await client.request(method, target, (("Range", "bytes=1-3"),))
        assert (found.status, found.body) == (206, OBJECTS[KEY][1:4] if method == "GET" else b"")
        origin.store.put("bucket", KEY, b"real")
        found = await client.request(method, target)
        assert found.headers["Content-Length"] == "4", "the origin has one"
        assert (await client.request(method, f"{path_of('bucket', KEY)}?versionId=other")).status == 404


async def test_a_member_is_no_version_of_a_bucket_with_versions(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        origin.store.bucket("bucket").versioning = "Enabled"
        pack(origin)
        assert (await rig.client().request("GET", path_of("bucket", KEY))).status == 200
        assert (await rig.client().request("GET", f"{path_of('bucket', KEY)}?versionId=null")).status == 404
