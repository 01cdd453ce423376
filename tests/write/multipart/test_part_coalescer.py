"""Small parts of OSS clients are joined before a completion, or it is refused."""

import time
from collections.abc import Sequence
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from forebay.core.errors import OriginBroken, S3Error, SpoolFull
from forebay.core.fair_semaphore import FairSemaphore
from forebay.peers.owners import Peers
from forebay.protocol.body.crc64 import crc64
from forebay.protocol.xml.s3_documents import UploadedPart
from forebay.storage.spool import Spool
from forebay.write.body_digest import BodyDigest
from forebay.write.forward_request import ForwardRequest
from forebay.write.multipart.multipart_registry import KnownPart, MultipartRegistry
from forebay.write.multipart.part_coalescer import PartCoalescer
from harness.forward_requests import CannedOrigin, CannedResponse, make_forward_request

LEAST = 4
BODY = b"<CompleteMultipartUpload/>"


class Fixture:
    def __init__(self, directory: Path, *answers: CannedResponse, limit: int = 100) -> None:
        self.spool = Spool(limit, FairSemaphore(100), share=100, wait=0.01, parent=directory)
        self.registry = MultipartRegistry(Peers(), time.monotonic, 3600)
        self.origin = CannedOrigin(*answers)
        origin: Any = self.origin
        self.coalescer = PartCoalescer(origin, self.spool, self.registry, LEAST)
        self.listed: list[UploadedPart] = []

    async def upload(self, number: int, body: bytes) -> KnownPart:
        """Uploads a part, as the client of a small part does."""
        forward = make_forward_request("PUT", f"/b/k?partNumber={number}&uploadId=u", body, oss=True)
        spooled, digest = self.coalescer.spool(forward), BodyDigest()
        digest.update(body)
        if spooled is not None:
            await spooled.reserve(len(body))
            spooled.append(body)
        part = KnownPart(f'"{number}"', digest, spooled)
        await self.registry.add(forward.upload, number, part)
        self.listed.append(UploadedPart(number, part.etag))
        return part


def completion(*, oss: bool = True) -> ForwardRequest:
    return make_forward_request("POST", "/b/k?uploadId=u", BODY, oss=oss)


async def test_small_neighbours_are_uploaded_as_one_part(tmp_path: Path) -> None:
    subject = Fixture(tmp_path, CannedResponse(200, ETag='"joined"'))
    for number, body in enumerate((b"ab", b"cd", b"large", b"e"), 1):
        await subject.upload(number, body)
    found = await subject.coalescer.coalesce(completion(), BODY, subject.listed)
    assert subject.origin.bodies == [b"abcd"]
    assert subject.origin.requests[0].query == (("partNumber", "1"), ("uploadId", "u"))
    assert found.digest == BodyDigest(crc64(b"abcdlargee"), 10)
    numbers = [number for number in range(1, 5) if f"<PartNumber>{number}<".encode() in found.body]
    assert (numbers, b"joined" in found.body) == ([1, 3, 4], True)
    assert subject.registry.lookup(completion().upload, [UploadedPart(1, "joined")]) != [None]


async def test_an_s3_clients_completion_is_sent_as_it_is(tmp_path: Path) -> None:
    subject = Fixture(tmp_path)
    for number, body in enumerate((b"ab", b"cd"), 1):
        await subject.upload(number, body)
    found = await subject.coalescer.coalesce(completion(oss=False), BODY, subject.listed)
    assert (found.body, found.digest) == (BODY, BodyDigest(crc64(b"abcd"), 4))
    unreadable = await subject.coalescer.coalesce(completion(), BODY, None)
    assert (unreadable.body, unreadable.digest) == (BODY, None)


async def test_missing_bytes_refuse_the_completion(tmp_path: Path) -> None:
    subject = Fixture(tmp_path)
    await subject.upload(1, b"ab")
    lost = await subject.upload(2, b"cd")
    lost.spooled = None
    with pytest.raises(S3Error, match="EntityTooSmall"):
        await subject.coalescer.coalesce(completion(), BODY, subject.listed)
    with pytest.raises(S3Error, match="InvalidPart"):
        await subject.coalescer.coalesce(completion(), BODY, [*subject.listed, UploadedPart(1, "another")])
    assert subject.origin.requests == []


@pytest.mark.parametrize("numbers", [(2, 1), (1, 1), (1, 3, 2)])
async def test_parts_out_of_order_are_not_joined(tmp_path: Path, numbers: Sequence[int]) -> None:
    """Joined, they would be an object that no list of parts in order makes."""
    subject = Fixture(tmp_path)
    for number in (1, 2, 3):
        await subject.upload(number, b"ab")
    listed = [UploadedPart(number, f'"{number}"') for number in numbers]
    with pytest.raises(S3Error, match="InvalidPartOrder"):
        await subject.coalescer.coalesce(completion(), BODY, listed)
    assert subject.origin.requests == []


async def test_damaged_bytes_are_never_sent_whole(tmp_path: Path) -> None:
    subject = Fixture(tmp_path)
    damaged = await subject.upload(1, b"ab")
    await subject.upload(2, b"cd")
    damaged.digest = BodyDigest(1, 2)
    with pytest.raises(S3Error, match="InternalError"):
        await subject.coalescer.coalesce(completion(), BODY, subject.listed)


async def test_a_failed_upload_fails_the_completion(tmp_path: Path) -> None:
    subject = Fixture(tmp_path, CannedResponse(403))
    await subject.upload(1, b"ab")
    await subject.upload(2, b"cd")
    with pytest.raises(OriginBroken, match="403"):
        await subject.coalescer.coalesce(completion(), BODY, subject.listed)


async def test_only_small_parts_of_oss_clients_are_spooled(tmp_path: Path) -> None:
    subject = Fixture(tmp_path, limit=3)
    assert (await subject.upload(1, b"abcd")).spooled is None
    assert subject.coalescer.spool(make_forward_request("PUT", "/b/k?partNumber=1&uploadId=u", b"ab")) is None
    assert subject.coalescer.spool(make_forward_request("PUT", "/b/k", b"ab", oss=True)) is None
    await subject.upload(2, b"ab")
    with pytest.raises(SpoolFull):
        await subject.upload(3, b"cd")
    assert subject.spool.in_use == 2


async def test_joined_parts_are_sent_once(tmp_path: Path) -> None:
    """A completion that is repeated lists what the origin has, as long as none of them was replaced."""
    subject = Fixture(tmp_path, CannedResponse(200, ETag='"joined"'), CannedResponse(200, ETag='"again"'))
    for number, body in enumerate((b"ab", b"cd"), 1):
        await subject.upload(number, body)
    first, again = [await subject.coalescer.coalesce(completion(), BODY, subject.listed) for _ in range(2)]
    assert (first, subject.origin.bodies) == (again, [b"abcd"])
    await subject.upload(2, b"ef")
    replaced = await subject.coalescer.coalesce(completion(), BODY, [subject.listed[0], subject.listed[2]])
    assert (b"again" in replaced.body, subject.origin.bodies) == (True, [b"abcd", b"abef"])


async def test_an_upload_that_has_ended_is_completed_all_the_same(tmp_path: Path) -> None:
    """With the ETag that the joined part had: the origin answers the completion."""
    subject = Fixture(tmp_path, CannedResponse(404))
    for number, body in enumerate((b"ab", b"cd"), 1):
        await subject.upload(number, body)
    found = await subject.coalescer.coalesce(completion(), BODY, subject.listed)
    assert md5(b"abcd").hexdigest().encode() in found.body
    assert found.joined_from == md5(BODY).hexdigest()
