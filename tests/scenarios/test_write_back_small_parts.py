"""Small parts of an OSS client in the journal: as they are where the origin is OSS, joined where it speaks S3."""

import os
from collections.abc import Sequence
from hashlib import md5
from pathlib import Path

import pytest
from fastcrc.crc64 import xz

from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.oss_client import OssClient, told
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER
from harness.write_back_rig import WriteBackRig, at_origin

KIB, MIB = 1 << 10, 1 << 20
TARGET = path_of("ckpt", "a/upload")


class _Upload:
    """An upload of `TARGET`, all parts of which are acknowledged by the journal."""

    def __init__(self, rig: WriteBackRig, sizes: Sequence[int]) -> None:
        self.client = OssClient(rig.endpoint, TRAINER)
        self.bodies = [os.urandom(size) for size in sizes]
        self.id = ""
        self.etags: list[str] = []

    @property
    def content(self) -> bytes:
        return b"".join(self.bodies)

    async def send(self) -> None:
        self.id = await self.client.initiate(TARGET)
        for number, body in enumerate(self.bodies, 1):
            answer = await self.client.part(TARGET, self.id, number, body)
            assert answer.headers["x-forebay-durable"] == "local"
            self.etags.append(answer.headers["ETag"])

    async def complete(self) -> RawAnswer:
        return await self.client.complete(TARGET, self.id, list(enumerate(self.etags, 1)))


def _etag(*parts: bytes) -> str:
    digests = b"".join(md5(part, usedforsecurity=False).digest() for part in parts)
    return f"{md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"


def _joined(bodies: Sequence[bytes], *runs: int) -> str:
    """The ETag of these parts, so many of them joined each time."""
    parts, start = [], 0
    for count in runs:
        parts.append(b"".join(bodies[start : start + count]))
        start += count
    return _etag(*parts)


async def test_small_parts_are_an_oss_origin_s(tmp_path: Path) -> None:
    async with OssOrigin() as origin, WriteBackRig(origin, tmp_path, dialect="oss") as rig:
        await rig.prove()
        upload = _Upload(rig, [300 * KIB, 100 * KIB, 7])
        await upload.send()
        answer = await upload.complete()
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "local"), answer.body
        assert told(answer, "ETag").strip('"').lower() == _etag(*upload.bodies)
        assert answer.headers["x-oss-hash-crc64ecma"] == str(xz(upload.content))
        await rig.settled()
        found = origin.store.current("ckpt", "a/upload")
        assert (at_origin(origin, "a/upload"), found and found.part_sizes) == (
            upload.content,
            (300 * KIB, 100 * KIB, 7),
        )
        too_small = _Upload(rig, [100 * KIB - 1, 7])
        await too_small.send()
        refused = await too_small.complete()
        assert (refused.status, told(refused, "Code")) == (400, "EntityTooSmall")


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [([MIB] * 7 + [9], (5, 3)), ([3 * MIB, 2 * MIB, 6 * MIB, 200 * KIB, 1], (2, 1, 2)), ([100 * KIB] * 3, (3,))],
    ids=["alike", "beside a large one", "tiny"],
)
async def test_small_parts_are_joined_for_an_s3_origin(
    tmp_path: Path, sizes: Sequence[int], runs: Sequence[int]
) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        upload, gate = _Upload(rig, sizes), Gate()
        origin.faults.add(HoldRequest(gate), key="a/upload")
        await upload.send()
        answer = await upload.complete()
        assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "local"), answer.body
        etag = told(answer, "ETag").strip('"').lower()
        assert etag == _joined(upload.bodies, *runs)
        got = await upload.client.request("GET", TARGET)
        assert got.body == upload.content
        assert {each.headers["x-oss-hash-crc64ecma"] for each in (answer, got)} == {str(xz(upload.content))}
        gate.open()
        await rig.settled()
        found = origin.store.current("ckpt", "a/upload")
        assert (found and found.etag, at_origin(origin, "a/upload")) == (f'"{etag}"', upload.content)
        assert list(rig.journal.joinpath("bodies").iterdir()) == []


async def test_a_repeated_completion_joins_small_parts_again(tmp_path: Path) -> None:
    """One that was answered with an error behind the joining, be it after a restart."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        upload = _Upload(rig, [2 * MIB] * 6)
        await upload.send()
        refusal = [("x-oss-forbid-overwrite", "true")]
        origin.store.put("ckpt", "a/upload", b"there")
        listed = list(enumerate(upload.etags, 1))
        parts = "".join(f"<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>" for number, etag in listed)
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        answer = await upload.client.document("POST", f"{TARGET}?uploadId={upload.id}", body, refusal)
        assert answer.status == 409, answer.body
        await rig.restart()
        upload.client = OssClient(rig.endpoint, TRAINER)
        shown = await upload.client.request("GET", f"{TARGET}?uploadId={upload.id}")
        assert shown.body.count(b"<Part>") == len(upload.bodies)
        answer = await upload.complete()
        assert answer.status == 200, answer.body
        assert (await upload.client.request("GET", TARGET)).body == upload.content
        await rig.settled()
        assert at_origin(origin, "a/upload") == upload.content
        assert list(rig.journal.joinpath("bodies").iterdir()) == []


async def test_a_full_journal_joins_no_parts(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, journal_size="16MiB") as rig:
        await rig.prove()
        upload = _Upload(rig, [2 * MIB] * 5)
        await upload.send()
        refused = await upload.complete()
        assert (refused.status, told(refused, "Code")) == (503, "SlowDown")


async def test_an_etag_of_the_journal_is_the_one_in_the_bucket(tmp_path: Path) -> None:
    """OSS writes them in upper case; a client of S3 that keeps one finds the same after the write was carried out."""
    async with OssOrigin() as origin, WriteBackRig(origin, tmp_path, dialect="oss") as rig:
        await rig.prove()
        client, target = rig.client(), path_of("ckpt", "a/key")
        copy = path_of("ckpt", "a/copy")
        acknowledged = await rig.put("a/key", b"content")
        copied = told(await client.request("PUT", copy, [("x-amz-copy-source", target)]), "ETag")
        upload = told(await client.request("POST", f"{TARGET}?uploads="), "UploadId")
        part = await client.request("PUT", f"{TARGET}?partNumber=1&uploadId={upload}", (), b"part")
        listed = f"<Part><PartNumber>1</PartNumber><ETag>{part.headers['ETag']}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
        completed = told(await client.request("POST", f"{TARGET}?uploadId={upload}", (), document), "ETag")
        pending = [(await client.request("HEAD", each)).headers["ETag"] for each in (target, copy, TARGET)]
        await rig.settled()
        found = [(await client.request("HEAD", each)).headers["ETag"] for each in (target, copy, TARGET)]
        assert [acknowledged, copied, completed] == pending == found
        assert part.headers["ETag"] == f'"{md5(b"part", usedforsecurity=False).hexdigest().upper()}"'


async def test_oss_asks_for_no_checksum_of_a_part(tmp_path: Path) -> None:
    async with OssOrigin() as origin, WriteBackRig(origin, tmp_path, dialect="oss") as rig:
        await rig.prove()
        client = rig.client()
        created = await client.request("POST", f"{TARGET}?uploads=", [("x-amz-checksum-algorithm", "SHA256")])
        target = f"{TARGET}?partNumber=1&uploadId={told(created, 'UploadId')}"
        assert (await client.request("PUT", target, (), b"part")).status == 200
