"""Uploads of one part in memory: what is visible when, and what is sent again."""

from collections.abc import AsyncIterator

import pytest

from forebay.core.errors import OriginBroken
from forebay.core.names import ObjectName
from forebay.jobs.packing.multipart_writer import ATTEMPTS, LEAST_PART, MultipartWriter
from forebay.origin.origins import Origins
from forebay.origin.small_objects import put_object
from harness.fake.actions import LateError, Respond
from harness.fake_origin import FakeOrigin
from harness.origin_client import KEY, NOW, client_of
from harness.reference_sigv4 import Secret

NAME = ObjectName("bucket", "packed/0.tar")


async def no_pause(_attempt: int) -> None:
    return


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin(clock=lambda: NOW) as fake:
        fake.allow(Secret(KEY.access_key, KEY.secret_key, "eu-west-1", KEY.session_token))
        fake.store.create_bucket("bucket")
        yield fake


def content_of(origin: FakeOrigin) -> bytes:
    stored = origin.store.buckets["bucket"].versions[NAME.key][-1]
    return b"".join(stored.content.views(0, stored.size))


async def write(origin: FakeOrigin, *pieces: bytes, finish: bool = True) -> MultipartWriter:
    async with client_of(origin.endpoint) as client:
        writer = MultipartWriter(Origins.single(client), NAME, 0, no_pause, (("Content-Type", "application/x-tar"),))
        for piece in pieces:
            await writer.write(piece)
        if finish:
            await writer.finish()
        else:
            await writer.abort()
        return writer


async def test_pieces_become_one_object(origin: FakeOrigin) -> None:
    pieces = [b"a" * (LEAST_PART - 1), b"bcd", b"e" * (2 * LEAST_PART)]
    writer = await write(origin, *pieces)
    assert content_of(origin) == b"".join(pieces)
    assert writer.size == sum(map(len, pieces))
    assert origin.log.count(operation="UploadPart") == 4


async def test_a_part_is_sent_again(origin: FakeOrigin) -> None:
    origin.faults.add(Respond(503, "SlowDown"), operation="UploadPart", times=2)
    await write(origin, b"content")
    assert content_of(origin) == b"content"


async def test_a_refusal_is_final_and_an_abort_leaves_nothing(origin: FakeOrigin) -> None:
    origin.faults.add(Respond(403, "AccessDenied"), operation="UploadPart")
    with pytest.raises(OriginBroken, match="AccessDenied to UploadPart"):
        await write(origin, b"content")
    origin.faults.clear()
    await write(origin, b"x" * LEAST_PART, finish=False)
    assert NAME.key not in origin.store.buckets["bucket"].versions
    assert len(origin.store.buckets["bucket"].uploads) == 1, "only that which was refused, and not aborted"


async def test_a_part_is_sent_so_often_and_no_more(origin: FakeOrigin) -> None:
    refused = origin.faults.add(Respond(503, "SlowDown"), operation="UploadPart")
    with pytest.raises(OriginBroken, match="SlowDown to UploadPart"):
        await write(origin, b"content")
    assert refused.applied == ATTEMPTS


async def test_a_completion_that_fails_late_is_a_failure(origin: FakeOrigin) -> None:
    origin.faults.add(LateError("InternalError"), operation="CompleteMultipartUpload")
    with pytest.raises(OriginBroken, match="InternalError"):
        await write(origin, b"content")


async def test_an_upload_without_an_id_gets_no_part(origin: FakeOrigin) -> None:
    """An origin may take a part without an id for the object."""
    origin.faults.add(Respond(200), operation="CreateMultipartUpload")
    with pytest.raises(OriginBroken, match="without an id"):
        await write(origin, b"content")
    assert not origin.log.count(operation="UploadPart")


async def test_an_upload_that_was_not_begun_is_not_aborted(origin: FakeOrigin) -> None:
    """An origin may take an abort without an id for the deletion of the object."""
    origin.store.put("bucket", NAME.key, b"mine")
    await write(origin, finish=False)
    assert not origin.log.count(method="DELETE")


async def test_a_small_object_is_put_at_once(origin: FakeOrigin) -> None:
    async with client_of(origin.endpoint) as client:
        await put_object(Origins.single(client), NAME, b"small")
    assert content_of(origin) == b"small"
