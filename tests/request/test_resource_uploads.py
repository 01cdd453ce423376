"""Multipart uploads of Forebay's own resources: by real SDKs, in parts that come in any order, and by others."""

import asyncio
import os
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

from harness.clients import path_of
from harness.memory_resource import MemoryResource, rig_with_notes
from harness.oss_client import OssClient, told
from harness.rig import READER, TRAINER

KEY = ".forebay/notes/long"
PATH = path_of("open", KEY)
MIB = 1 << 20


async def test_boto3_uploads_a_file_in_parts(tmp_path: Path) -> None:
    content = os.urandom(11 * MIB)
    (tmp_path / "order.txt").write_bytes(content)
    async with rig_with_notes(tmp_path) as (_, rig):
        notes = rig.parts.requests.gateway.resources.kinds["notes"].writer
        assert isinstance(notes, MemoryResource)
        notes.largest_body = 11 * MIB
        client = rig.boto3()

        def dialogue() -> None:
            config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=3)
            client.upload_file(str(tmp_path / "order.txt"), "open", KEY, Config=config)
            assert client.get_object(Bucket="open", Key=KEY)["Body"].read() == content

        await asyncio.to_thread(dialogue)
        client.close()
        assert len(rig.parts.writes.uploads) == 0
        assert len(rig.parts.storage.spool) == 0


async def test_the_parts_that_are_here_are_listed(tmp_path: Path) -> None:
    """As oss2 wants it before a resumable upload, and boto3 where somebody resumes one."""
    async with rig_with_notes(tmp_path) as (_, rig):
        client, other = rig.boto3(), rig.boto3(READER)

        def dialogue() -> None:
            upload = client.create_multipart_upload(Bucket="open", Key=KEY)["UploadId"]
            names = {"Bucket": "open", "Key": KEY, "UploadId": upload}
            assert "Parts" not in client.list_parts(**names)
            etags = [client.upload_part(**names, PartNumber=n, Body=b"x" * n)["ETag"] for n in (1, 2, 3)]
            parts = client.list_parts(**names)["Parts"]
            assert [(each["PartNumber"], each["ETag"], each["Size"]) for each in parts] == [
                *zip((1, 2, 3), etags, (1, 2, 3), strict=True)
            ]
            page = client.list_parts(**names, MaxParts=1, PartNumberMarker=1)
            assert ([each["PartNumber"] for each in page["Parts"]], page["IsTruncated"]) == ([2], True)
            assert "Parts" not in other.list_parts(**names), "an upload is its principal's"
            client.abort_multipart_upload(**names)
            assert "Parts" not in client.list_parts(**names)

        await asyncio.to_thread(dialogue)
        client.close()
        other.close()
        oss = OssClient(rig.endpoint, TRAINER)
        upload = await oss.initiate(PATH)
        sent = await oss.part(PATH, upload, 7, b"seven")
        answer = await oss.request("GET", f"{PATH}?uploadId={upload}&encoding-type=url&max-parts=10")
        assert (answer.status, told(answer, "PartNumber"), told(answer, "Size")) == (200, "7", "5"), answer.body
        assert told(answer, "ETag").strip('"') == sent.headers["ETag"].strip('"')
        assert (await oss.request("DELETE", f"{PATH}?uploadId={upload}")).status == 204


async def test_parts_are_joined_as_the_completion_lists_them(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        client = rig.boto3()

        def dialogue() -> None:
            upload = client.create_multipart_upload(Bucket="open", Key=KEY)["UploadId"]
            names = {"Bucket": "open", "Key": KEY, "UploadId": upload}
            etags = {n: client.upload_part(**names, PartNumber=n, Body=b"%d" % n * 3)["ETag"] for n in (3, 1, 2)}
            client.upload_part(**names, PartNumber=2, Body=b"two")
            stale = [{"PartNumber": n, "ETag": etags[n]} for n in (1, 2)]
            with pytest.raises(ClientError, match="InvalidPart"):
                client.complete_multipart_upload(**names, MultipartUpload={"Parts": stale})
            disordered = [{"PartNumber": n, "ETag": etags[n]} for n in (3, 1)]
            with pytest.raises(ClientError, match="InvalidPartOrder"):
                client.complete_multipart_upload(**names, MultipartUpload={"Parts": disordered})
            listed = [{"PartNumber": n, "ETag": etags[n]} for n in (1, 3)]
            completed = client.complete_multipart_upload(**names, MultipartUpload={"Parts": listed})
            assert completed["ETag"].endswith('-2"')
            assert client.get_object(Bucket="open", Key=KEY)["Body"].read() == b"111333"

        await asyncio.to_thread(dialogue)
        client.close()


async def test_an_aborted_upload_leaves_nothing(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        client = rig.boto3()

        def dialogue() -> None:
            upload = client.create_multipart_upload(Bucket="open", Key=KEY)["UploadId"]
            names = {"Bucket": "open", "Key": KEY, "UploadId": upload}
            part = client.upload_part(**names, PartNumber=1, Body=b"part")
            client.abort_multipart_upload(**names)
            parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
            with pytest.raises(ClientError, match="InvalidPart"):
                client.complete_multipart_upload(**names, MultipartUpload=parts)
            with pytest.raises(ClientError, match="NoSuchKey"):
                client.get_object(Bucket="open", Key=KEY)

        await asyncio.to_thread(dialogue)
        client.close()
        assert len(rig.parts.storage.spool) == 0


async def test_parts_together_are_no_longer_than_allowed(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        client = rig.boto3()

        def dialogue() -> None:
            upload = client.create_multipart_upload(Bucket="open", Key=KEY)["UploadId"]
            names = {"Bucket": "open", "Key": KEY, "UploadId": upload}
            with pytest.raises(ClientError, match="EntityTooLarge"):
                client.upload_part(**names, PartNumber=1, Body=bytes(1001))
            etags = [client.upload_part(**names, PartNumber=n, Body=bytes(600))["ETag"] for n in (1, 2)]
            parts = [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]
            with pytest.raises(ClientError, match="EntityTooLarge"):
                client.complete_multipart_upload(**names, MultipartUpload={"Parts": parts})
            client.abort_multipart_upload(**names)

        await asyncio.to_thread(dialogue)
        client.close()


async def test_an_upload_is_its_principals_alone(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        created = await rig.client(TRAINER).request("POST", f"{PATH}?uploads")
        upload = told(created, "UploadId")
        part = await rig.client(TRAINER).request("PUT", f"{PATH}?partNumber=1&uploadId={upload}", (), b"secret")
        document = _completion(part.headers["ETag"])
        other = await rig.client(READER).request("POST", f"{PATH}?uploadId={upload}", (), document)
        assert (other.status, told(other, "Code")) == (400, "InvalidPart")
        assert (await rig.client(READER).request("DELETE", f"{PATH}?uploadId={upload}")).status == 204
        assert (await rig.client(TRAINER).request("POST", f"{PATH}?uploadId={upload}", (), document)).status == 200
        assert (await rig.client(READER).request("GET", PATH)).status == 404


@pytest.mark.parametrize("number", ["0", "10001", "-1", "x", "99999999"])
async def test_a_part_number_out_of_bounds_is_refused(tmp_path: Path, number: str) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        upload = told(await rig.client().request("POST", f"{PATH}?uploads"), "UploadId")
        answer = await rig.client().request("PUT", f"{PATH}?partNumber={number}&uploadId={upload}", (), b"part")
        assert (answer.status, told(answer, "Code")) == (400, "InvalidArgument")
        unknown = await rig.client().request("PUT", f"{PATH}?partNumber=1&uploadId=u", (), b"part")
        assert (unknown.status, told(unknown, "Code")) == (404, "NoSuchUpload")


async def test_an_oss_client_uploads_in_parts(tmp_path: Path) -> None:
    async with rig_with_notes(tmp_path) as (_, rig):
        client = OssClient(rig.endpoint, TRAINER)
        created = await client.request("POST", f"{PATH}?uploads")
        upload = told(created, "UploadId")
        etags = [
            (await client.request("PUT", f"{PATH}?partNumber={n}&uploadId={upload}", (), b"part%d" % n)).headers["ETag"]
            for n in (1, 2)
        ]
        completed = await client.request("POST", f"{PATH}?uploadId={upload}", (), _completion(*etags))
        assert completed.status == 200, completed.body
        assert (await client.request("GET", PATH)).body == b"part1part2"
        aborted = await client.request("DELETE", f"{PATH}?uploadId={upload}")
        assert aborted.status == 204


def _completion(*etags: str) -> bytes:
    parts = "".join(f"<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>" for n, etag in enumerate(etags, 1))
    return f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
