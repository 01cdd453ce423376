"""The index of a pack: all of its blocks, the newest member of a key, and nothing of a failed publication."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from forebay.core.errors import OriginBroken
from forebay.core.names import ObjectName
from forebay.jobs.packing.index_publisher import IndexSource, MergedMembers, publish_index
from forebay.jobs.packing.multipart_writer import MultipartWriter
from forebay.namespace.packs.index_file import fetch_index
from forebay.origin.origins import Origins
from forebay.protocol.packs.index_block import BLOCK_MEMBERS
from forebay.protocol.packs.packed_member import DIGEST_BYTES, PackedMember, PackShard
from harness.fake.actions import Action, LateError, Respond
from harness.fake_origin import FakeOrigin
from harness.origin_client import client_of

INDEX, REFERENCES = ObjectName("bucket", "packed/index.fbpack"), ObjectName("bucket", "packed/index.refs.json")
OLD, NEW = PackShard("packed/old.tar", 1 << 30, '"old"'), PackShard("packed/new.tar", 1 << 30, '"new"')


@dataclass
class Source:
    """Members of one shard."""

    keys: Sequence[str]
    shard: PackShard

    @property
    def shards(self) -> Sequence[PackShard]:
        return [self.shard]

    async def members(self) -> AsyncIterator[PackedMember]:
        for number, key in enumerate(self.keys):
            yield PackedMember(key, 0, 512 * number, 1, '"e"', 0, (), bytes(DIGEST_BYTES))


@asynccontextmanager
async def publishing(origin: FakeOrigin) -> AsyncIterator[Origins]:
    origin.store.create_bucket("bucket")
    async with client_of(origin.endpoint) as client:
        yield Origins.single(client)


async def no_pause(_attempt: int) -> None:
    return


async def publish(origins: Origins, *sources: Source) -> int:
    index, references = (MultipartWriter(origins, name, 0, no_pause) for name in (INDEX, REFERENCES))
    return await publish_index(MergedMembers(sources), "train/", index, references, 1.0)


async def test_an_index_of_several_blocks_has_all_members(tmp_path: Path) -> None:
    keys = [f"train/{number:05}" for number in range(2 * BLOCK_MEMBERS + 1)]
    newer = keys[:: BLOCK_MEMBERS // 2]
    async with FakeOrigin(verify=False) as origin, publishing(origin) as origins:
        assert await publish(origins, Source(keys, OLD), Source(newer, NEW)) == len(keys)
        file = await fetch_index(origins, INDEX, tmp_path)
        found = [member async for member in IndexSource(file).members()]
    assert [member.key for member in found] == keys
    assert [member.key for member in found if file.shards[member.shard] == NEW] == newer


@pytest.mark.parametrize("failure", [Respond(403, "AccessDenied"), LateError("InternalError")])
@pytest.mark.parametrize("name", [INDEX, REFERENCES])
async def test_a_failed_publication_changes_no_index(name: ObjectName, failure: Action, tmp_path: Path) -> None:
    async with FakeOrigin(verify=False) as origin, publishing(origin) as origins:
        await publish(origins, Source(["train/old"], OLD))
        origin.faults.add(failure, operation="CompleteMultipartUpload", key=name.key)
        with pytest.raises(OriginBroken, match=r"AccessDenied|InternalError"):
            await publish(origins, Source(["train/new"], NEW))
        file = await fetch_index(origins, INDEX, tmp_path)
        assert [member.key async for member in IndexSource(file).members()] == ["train/old"]
        assert not origin.store.buckets["bucket"].uploads
