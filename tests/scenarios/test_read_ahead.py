"""Read-ahead with boto3: sequential readers over separate requests, shards in order, random readers, and head hints."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from harness.background_work import wait_settled
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.rig import READER, Rig

KIB, MIB = 1 << 10, 1 << 20
RULES = '[[rules]]\npath = "**"\nread_ahead = "8MiB"\nfreshness = "immutable"\n'


def get(s3: Any, key: str, start: int | None = None, stop: int | None = None) -> tuple[bytes, str]:
    ranged = {"Range": f"bytes={start}-{stop - 1}"} if start is not None and stop is not None else {}
    answer = s3.get_object(Bucket="bucket", Key=key, **ranged)
    return answer["Body"].read(), answer["ResponseMetadata"]["HTTPHeaders"]["x-forebay-cache"]


async def test_ranges_that_follow_each_other_are_fetched_ahead(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        content = random.Random(1).randbytes(24 * MIB)
        origin.store.put("bucket", "table.parquet", content)
        s3 = rig.boto3()
        statuses = []
        for start in range(0, len(content), MIB):
            body, status = await asyncio.to_thread(get, s3, "table.parquet", start, start + MIB)
            assert body == content[start : start + MIB]
            statuses.append(status)
            await wait_settled(rig, origin)
        s3.close()
        assert statuses[:3] == ["miss"] * 3
        assert statuses[3:] == ["hit-memory"] * 21
        assert sum(entry.bytes_sent for entry in origin.log.requests if entry.key == "table.parquet") == len(content)
        assert rig.parts.jobs.read_ahead.waiting == 0


async def test_the_next_shard_is_fetched_before_it_is_read(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        shards = [f"train/{number:03}.tar" for number in range(14)]
        for key in shards:
            origin.store.put("bucket", key, key.encode() * 100_000)
        s3 = rig.boto3()
        statuses = []
        for key in shards:
            body, status = await asyncio.to_thread(get, s3, key)
            assert body == key.encode() * 100_000
            statuses.append(status)
            await wait_settled(rig, origin)
        s3.close()
        assert statuses[0] == "miss"
        assert statuses[6:] == ["hit-memory"] * 8
        assert origin.log.count(operation="ListObjectsV2") == 1


@pytest.mark.parametrize("block", [64 * KIB, MIB])
async def test_a_random_reader_costs_no_further_byte(tmp_path: Path, block: int) -> None:
    """Bytes that the origin sends, with read-ahead and without it, and those of the blocks that are read of."""
    sent, touched = [], set[int]()
    for number, read_ahead in enumerate(("8MiB", "0B")):
        rules = f'[[rules]]\npath = "**"\nread_ahead = "{read_ahead}"\nblock = "{block // KIB}KiB"\n'
        rules += 'freshness = "immutable"\n'
        async with (
            FakeOrigin() as origin,
            Rig(origin.endpoint, origin.secret, tmp_path / str(number), rest=rules) as rig,
        ):
            origin.store.put_synthetic("bucket", "large", 256 * MIB)
            draw, s3 = random.Random(5), rig.boto3()
            for _ in range(60):
                length = draw.randrange(64 * KIB, MIB)
                start = draw.randrange(256 * MIB - length)
                await asyncio.to_thread(get, s3, "large", start, start + length)
                touched.update(range(start // block, -(-(start + length) // block)))
            s3.close()
            await wait_settled(rig, origin)
            sent.append(origin.log.bytes_sent)
    assert len(touched) * block <= sent[1]
    assert sent[0] <= 1.05 * min(sent[1], len(touched) * block)


WARM = '[[rules]]\npath = "bucket/hinted/**"\nwarm_on_head = true\n'


async def test_a_head_of_the_first_byte_warms_the_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        for key in ("hinted/1", "hinted/2", "other"):
            origin.store.put("bucket", key, bytes(3 * MIB))
        s3 = rig.boto3()
        for key in ("hinted/1", "hinted/2", "other"):
            await asyncio.to_thread(s3.head_object, Bucket="bucket", Key=key)
        await rig.wait_idle()
        assert origin.log.count("GET", "GetObject") == 0, "a HEAD alone is no hint"
        for _ in range(3):
            for key in ("hinted/1", "other"):
                answer = await asyncio.to_thread(s3.head_object, Bucket="bucket", Key=key, Range="bytes=0-0")
                assert answer["ContentLength"] == 1
        await asyncio.to_thread(s3.head_object, Bucket="bucket", Key="hinted/2", Range="bytes=0-1")
        await rig.wait_idle()
        assert {entry.key for entry in origin.log.requests if entry.method == "GET"} == {"hinted/1"}
        assert (await asyncio.to_thread(get, s3, "hinted/1")) == (bytes(3 * MIB), "hit-memory")
        s3.close()


async def test_a_hint_of_a_reader_without_the_right_does_nothing(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WARM) as rig:
        origin.store.put("bucket", "hinted/1", b"x")
        answer = await rig.client(READER).request("HEAD", path_of("bucket", "hinted/1"), [("Range", "bytes=0-0")])
        assert answer.status == 403
        await rig.wait_idle()
        assert origin.log.count(key="hinted/1") == 0
