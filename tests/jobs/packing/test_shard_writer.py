"""Shards: what is refused before its bytes become a member, and that members are read back as the origin has them."""

import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from forebay.core.errors import OriginBroken
from forebay.core.names import ObjectName
from forebay.jobs.packing.multipart_writer import MultipartWriter
from forebay.jobs.packing.shard_writer import PIECE, ShardWriter, read_object, read_pieces
from forebay.origin.origins import Origins
from forebay.protocol.tar_header import END_OF_TAR
from harness.fake.actions import FORBIDDEN, MISSING_ETAG, Action, AnnounceLength, Rewrite
from harness.fake.response_bytes import ResponseBytes
from harness.fake_origin import FakeOrigin
from harness.origin_client import client_of

SHARD, OBJECT = ObjectName("bucket", "packed/0.tar"), ObjectName("bucket", "train/1")
CONTENT = b"the bytes of the member"


@asynccontextmanager
async def packing() -> AsyncIterator[tuple[FakeOrigin, Origins]]:
    async with FakeOrigin(verify=False) as origin, client_of(origin.endpoint) as client:
        origin.store.put(*OBJECT, CONTENT)
        yield origin, Origins.single(client)


async def no_pause(_attempt: int) -> None:
    return


def damage(response: ResponseBytes) -> ResponseBytes:
    return replace(response, body=response.body.replace(CONTENT, bytes(len(CONTENT))))


@pytest.mark.parametrize(
    ("method", "action", "reason"),
    [
        ("GET", Rewrite(damage), "the bytes of train/1 are not those that were read"),
        ("HEAD", AnnounceLength(1024), "is not as it was written"),
        ("HEAD", FORBIDDEN, "is not as it was written"),
    ],
)
async def test_a_shard_is_read_back(method: str, action: Action, reason: str) -> None:
    async with packing() as (origin, origins):
        origin.faults.add(action, method=method, key=SHARD.key, times=1)
        for number in range(2):
            writer = ShardWriter(origins, MultipartWriter(origins, SHARD, 0, no_pause), 0)
            await writer.add(await read_object(origins, OBJECT, len(CONTENT)))
            if number:
                assert (await writer.finish()).size == writer.size, "without the fault"
            else:
                with pytest.raises(OriginBroken, match=reason):
                    await writer.finish()


@pytest.mark.parametrize(
    ("action", "most", "reason"),
    [
        (None, len(CONTENT) - 1, "has grown"),
        (MISSING_ETAG, len(CONTENT), "can't be read as bytes of a version"),
        (FORBIDDEN, len(CONTENT), "AccessDenied"),
    ],
)
async def test_what_is_no_object_of_its_size_is_refused(action: Action | None, most: int, reason: str) -> None:
    async with packing() as (origin, origins):
        if action is not None:
            origin.faults.add(action, method="GET")
        with pytest.raises(OriginBroken, match=reason):
            await read_object(origins, OBJECT, most)


@pytest.mark.parametrize(("etag", "size"), [('"same"', PIECE + 1), ('"other"', PIECE + 2), ("", 0)])
async def test_an_object_that_changes_between_pieces_is_refused(etag: str, size: int) -> None:
    """And nothing of the connection on which that was seen is kept. `size` 0: it is gone."""
    async with packing() as (origin, origins):
        origin.store.put(*OBJECT, bytes(PIECE + 2), etag='"same"')
        pieces = read_pieces(origins, OBJECT, PIECE + 2, '"same"')
        assert len(await anext(pieces)) == PIECE
        if size:
            origin.store.put(*OBJECT, bytes(size), etag=etag)
        else:
            origin.store.delete(*OBJECT)
        with pytest.raises(OriginBroken, match="was replaced" if size else "can't be read any more"):
            await anext(pieces)


async def test_a_large_object_is_a_member_of_the_archive() -> None:
    content = bytes(range(256)) * (PIECE // 256) + b"end"
    async with packing() as (origin, origins):
        large = ObjectName("bucket", "train/large")
        origin.store.put(*large, content)
        facts = (await read_object(origins, large, len(content))).facts
        writer = ShardWriter(origins, MultipartWriter(origins, SHARD, 0, no_pause), 0)
        await writer.add_large(large, facts)
        await writer.finish()
        stored = origin.store.get(*SHARD)
    archive = b"".join(stored.content.views(0, stored.size))
    assert archive.endswith(END_OF_TAR)
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        assert members.getnames() == [large.key]
        found = members.extractfile(large.key)
        assert found is not None
        assert found.read() == content
