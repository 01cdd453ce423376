"""Copies whose source is a member of a pack, and requests about what members have not."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harness.bucket_owners import NO_OWNER, OTHER_OWNER, OWNER, owned
from harness.clients import path_of
from harness.conformance import texts
from harness.fake.actions import FORBIDDEN, LoseAnswer
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient
from harness.packed_rig import IDENTITY, OBJECTS, PARTNER, PARTNER_THERE, RULE, pack, read, rig_of
from harness.rig import READER, TRAINER
from harness.write_back_rig import WriteBackRig

KEY, COPY = "train/007.jpg", "copies/seven"
SOURCE = ("x-amz-copy-source", f"bucket/{KEY}")


async def copy(client: Any, *headers: tuple[str, str], path: str = path_of("bucket", COPY)) -> Any:
    return await client.request("PUT", path, (SOURCE, *headers))


def stored(origin: FakeOrigin, key: str = COPY) -> bytes | None:
    found = origin.store.current("bucket", key)
    return None if found is None else b"".join(found.content.views(0, found.size))


async def test_a_member_is_copied(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, headers=(("Content-Type", "image/jpeg"), ("x-amz-meta-label", "cat")))
        answer = await copy(rig.client())
        assert answer.status == 200
        assert stored(origin) == OBJECTS[KEY]
        shown = await read(rig.client(), COPY)
        assert (shown.body, shown.headers["Content-Type"]) == (OBJECTS[KEY], "image/jpeg")
        assert shown.headers["x-amz-meta-label"] == "cat"
        assert texts(answer, "ETag") == [shown.headers["ETag"]]
        assert texts(answer, "LastModified")
        replaced = await copy(
            rig.client(), ("x-amz-metadata-directive", "REPLACE"), ("Content-Type", "a/b"), ("x-amz-meta-own", "1")
        )
        assert replaced.status == 200
        shown = await read(rig.client(), COPY)
        assert (shown.headers["Content-Type"], shown.headers["x-amz-meta-own"]) == ("a/b", "1")
        assert "x-amz-meta-label" not in shown.headers


async def test_copies_by_boto3_and_of_parts(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40_000
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin, {"train/large": content, "train/empty": b""})
        s3 = rig.boto3()

        def dialogue() -> None:
            s3.copy_object(Bucket="bucket", Key="copies/empty", CopySource={"Bucket": "bucket", "Key": "train/empty"})
            upload = s3.create_multipart_upload(Bucket="bucket", Key="copies/large")["UploadId"]
            named: dict[str, Any] = {"Bucket": "bucket", "Key": "copies/large", "UploadId": upload}
            parts = []
            for number, span in ((1, "bytes=0-5242879"), (2, f"bytes=5242880-{len(content) - 1}")):
                part = s3.upload_part_copy(
                    **named, PartNumber=number, CopySource="bucket/train/large", CopySourceRange=span
                )
                parts.append({"PartNumber": number, "ETag": part["CopyPartResult"]["ETag"]})
            with pytest.raises(s3.exceptions.ClientError, match="not inside the source"):
                s3.upload_part_copy(
                    **named, PartNumber=3, CopySource="bucket/train/large", CopySourceRange="bytes=0-99999999"
                )
            s3.complete_multipart_upload(**named, MultipartUpload={"Parts": parts})

        await asyncio.to_thread(dialogue)
        s3.close()
        assert stored(origin, "copies/large") == content
        assert stored(origin, "copies/empty") == b""


@pytest.mark.parametrize(
    ("condition", "value", "status"),
    [
        ("if-match", "{etag}", 200),
        ("if-match", '"other"', 412),
        ("if-none-match", "{etag}", 412),
        ("if-none-match", '"other"', 200),
        ("if-modified-since", "Tue, 14 Nov 2023 22:13:20 GMT", 412),
        ("if-modified-since", "Mon, 13 Nov 2023 22:13:20 GMT", 200),
        ("if-unmodified-since", "Mon, 13 Nov 2023 22:13:20 GMT", 412),
    ],
)
async def test_conditions_are_about_the_member(tmp_path: Path, condition: str, value: str, status: int) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        etag = (await read(rig.client(), KEY, method="HEAD")).headers["ETag"]
        answer = await copy(rig.client(), (f"x-amz-copy-source-{condition}", value.format(etag=etag)))
        assert answer.status == status
        assert (stored(origin) is not None) is (status == 200)


async def test_an_object_and_a_deleted_member_are_the_origins(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        origin.store.put("bucket", KEY, b"real")
        assert (await copy(rig.client())).status == 200
        assert stored(origin) == b"real"
        assert origin.log.count(operation="CopyObject") == 1
        assert (await rig.client().request("DELETE", path_of("bucket", KEY))).status == 204
        answer = await copy(rig.client())
        assert (answer.status, texts(answer, "Code")) == (404, ["NoSuchKey"])


async def test_who_may_not_read_a_member_copies_nothing(tmp_path: Path) -> None:
    async with (
        FakeOrigin() as origin,
        rig_of(origin, tmp_path, IDENTITY.replace('"list"]', '"list", "write"]') + RULE) as rig,
    ):
        origin.allow(PARTNER_THERE)
        pack(origin)
        assert (await copy(rig.client(READER))).status == 403
        denied = origin.faults.add(
            FORBIDDEN,
            where=lambda asked: (
                asked.method != "PUT" and PARTNER_THERE.access in asked.headers.get("Authorization", "")
            ),
        )
        assert (await copy(rig.client(PARTNER))).status in {403, 404}
        assert stored(origin) is None
        origin.faults.remove(denied)
        assert (await copy(rig.client(PARTNER))).status == 200
        assert stored(origin) == OBJECTS[KEY]


async def test_a_shard_that_breaks_off_makes_no_copy(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert (await read(rig.client(), KEY, method="HEAD")).status == 200
        origin.faults.add(LoseAnswer(), method="GET", key="packed/train-0.tar")
        assert (await copy(rig.client())).status == 503
        assert stored(origin) is None


async def test_a_journal_takes_a_copy(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, rest=RULE) as rig:
        await rig.prove()
        pack(origin)
        answer = await copy(rig.client(), path=path_of("ckpt", "a/copy"))
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "local")
        assert (await rig.client().request("GET", path_of("ckpt", "a/copy"))).body == OBJECTS[KEY]
        await rig.settled()


async def test_oss_clients_copy_members(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)

        answer = await OssClient(rig.endpoint, TRAINER).request(
            "PUT", path_of("bucket", COPY), (("x-oss-copy-source", f"/bucket/{KEY}"),)
        )
        assert (answer.status, texts(answer, "ETag") != []) == (200, True)
        assert stored(origin) == OBJECTS[KEY]


async def test_the_origin_compares_the_owner_of_the_source(tmp_path: Path) -> None:
    header = "x-amz-source-expected-bucket-owner"
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        owned(origin)
        for owner, status in ((OTHER_OWNER, 403), (NO_OWNER, 400)):
            assert (await copy(rig.client(), (header, owner))).status == status
            assert stored(origin) is None
        assert (await copy(rig.client(), (header, OWNER))).status == 200
        assert stored(origin) == OBJECTS[KEY]


async def test_the_null_version_of_a_member_is_copied(tmp_path: Path) -> None:
    source = ("x-amz-copy-source", f"bucket/{KEY}?versionId=null")
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        assert (await rig.client().request("PUT", path_of("bucket", COPY), (source,))).status == 200
        assert stored(origin) == OBJECTS[KEY]


@pytest.mark.parametrize("directive", ["BOGUS", "replace"])
async def test_an_unknown_directive_is_refused(tmp_path: Path, directive: str) -> None:
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        refused = await copy(rig.client(), ("x-amz-metadata-directive", directive))
        assert (refused.status, texts(refused, "Code")) == (400, ["InvalidArgument"])
        assert texts(refused, "ArgumentValue") == [directive]


async def test_a_copy_to_itself_changes_something(tmp_path: Path) -> None:
    """As S3 has it. What it changes goes into an object, which wins."""
    async with FakeOrigin() as origin, rig_of(origin, tmp_path) as rig:
        pack(origin)
        refused = await copy(rig.client(), path=path_of("bucket", KEY))
        assert (refused.status, texts(refused, "Code")) == (400, ["InvalidRequest"])
        assert stored(origin, KEY) is None
        replaced = await copy(rig.client(), ("x-amz-metadata-directive", "REPLACE"), path=path_of("bucket", KEY))
        assert replaced.status == 200
        assert not [name for name in replaced.headers if name.lower().startswith("x-amz-checksum-")]
        assert stored(origin, KEY) == OBJECTS[KEY]
