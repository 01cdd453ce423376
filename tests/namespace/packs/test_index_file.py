"""The copy of an index: members that tombstones hide, blocks that are damaged or not in the page cache, and what is
left of a copy that fails."""

import gc
import os
import random
import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import MalformedPack, OriginBroken, StorageError
from forebay.core.names import ObjectName
from forebay.namespace.packs.index_file import IndexFile, fetch_index
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, ReadOutcome, Revalidated
from forebay.protocol.packs.index_block import BLOCK_MEMBERS
from forebay.protocol.packs.pack_index import open_index
from forebay.protocol.packs.tombstones import Tombstone
from harness.pack_views import NAME, member, opened
from harness.packed_objects import SHARDS, index_bytes


def index_of(*keys: str, prefix: str = "") -> IndexFile:
    return opened(index_bytes([member(key, 512 * (1 + at)) for at, key in enumerate(keys)], prefix=prefix))


async def test_a_tombstone_hides_its_member_alone() -> None:
    index = index_of("a", "b", "c")
    await index.hide([Tombstone("b", SHARDS[0].key, 1024), Tombstone("z", SHARDS[0].key, 512)])
    assert [(await index.find(key)) is not None for key in "abcz"] == [True, False, True, False]
    assert [index.find_nowait(key) is not None for key in "abcz"] == [True, False, True, False]
    shown, is_hidden = await index.find_with_hidden("b")
    assert (shown, is_hidden) == (member("b", 1024), True)
    assert index.members == 2


@pytest.mark.parametrize("tombstone", [Tombstone("b", SHARDS[1].key, 1024), Tombstone("b", SHARDS[0].key, 512)])
async def test_a_tombstone_of_another_member_hides_nothing(tombstone: Tombstone) -> None:
    """The key was deleted, and packed again: elsewhere."""
    index = index_of("a", "b")
    await index.hide([tombstone])
    assert await index.find("b") == member("b", 1024)
    assert index.members == 2


async def test_tombstones_of_other_blocks_count_where_one_is_damaged() -> None:
    content = index_bytes([member(f"{at:06}", 512 * (1 + at)) for at in range(2 * BLOCK_MEMBERS)])
    damaged = bytearray(content)
    damaged[open_index(content).span(0).start] ^= 1
    index, last = opened(content, bytes(damaged)), f"{2 * BLOCK_MEMBERS - 1:06}"
    await index.hide([Tombstone("000000", SHARDS[0].key, 512), Tombstone(last, SHARDS[0].key, 512 * 2 * BLOCK_MEMBERS)])
    assert await index.find(last) is None
    with pytest.raises(MalformedPack, match="checksum"):
        await index.find("000000")


async def test_a_tombstone_counts_once_its_block_can_be_read() -> None:
    """The page was damaged on its way from the disk; it is read once more."""
    content = index_bytes([member("a"), member("b", 1024)])
    start = open_index(content).span(0).start
    fd = os.memfd_create("index")
    os.write(fd, content)
    os.pwrite(fd, bytes([content[start] ^ 1]), start)
    index = IndexFile(NAME, '"etag"', fd, open_index(content))
    await index.hide([Tombstone("b", SHARDS[0].key, 1024)])
    with pytest.raises(MalformedPack):
        await index.find("b")
    os.pwrite(fd, content[start : start + 1], start)
    assert (await index.find("a"), await index.find("b"), index.members) == (member("a"), None, 1)


async def test_a_block_that_is_not_cached_is_waited_for() -> None:
    index = index_of("a")
    assert index.find_nowait("a") == "unknown"
    assert await index.find("a") == member("a")
    assert index.find_nowait("a") == member("a"), "it was decoded"
    assert index.find_nowait("b") is None


async def test_a_copy_that_is_cut_short_is_damage(tmp_path: Path) -> None:
    content = index_bytes([member("a")])
    path = tmp_path / "index"
    path.write_bytes(content[: open_index(content).span(0).stop - 1])
    index = IndexFile(NAME, '"etag"', os.open(path, os.O_RDONLY), open_index(content))
    assert index.find_nowait("a") == "unknown"
    with pytest.raises(MalformedPack, match="cut short"):
        await index.find("a")


async def test_a_copy_that_cannot_be_read_is_a_storage_error(tmp_path: Path) -> None:
    index = IndexFile(NAME, '"etag"', os.open(tmp_path, os.O_RDONLY), open_index(index_bytes([member("a")])))
    with pytest.raises(StorageError, match="can't be read"):
        await index.find("a")


async def test_few_blocks_are_kept_decoded() -> None:
    blocks = 80
    index = opened(index_bytes([member(f"{at:06}") for at in range(blocks * BLOCK_MEMBERS)]))
    for number in range(blocks):
        await index.block(number)
    await index.block(blocks - 64)
    await index.block(0)
    known = [number for number in range(blocks) if index.block_nowait(number) is not None]
    assert known == [0, blocks - 64, *range(blocks - 62, blocks)], "those used last"


async def test_an_empty_index_has_nothing() -> None:
    index = index_of()
    await index.hide([Tombstone("a", SHARDS[0].key, 512)])
    assert (await index.find("a"), index.find_nowait("a"), index.members) == (None, None, 0)


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_the_copy_is_closed_with_its_last_use() -> None:
    before = descriptors()
    index = index_of("a")
    assert descriptors() == before + 1
    del index
    assert descriptors() == before


class Opened:
    """An index at the origin, and whether its body was closed."""

    def __init__(self, content: bytes) -> None:
        self._content, self.is_closed = content, False

    async def read_into(self, target: memoryview) -> int:
        piece, self._content = self._content[: min(len(target), 1000)], self._content[min(len(target), 1000) :]
        target[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self.is_closed = True

    async def open_read(self, _name: ObjectName, _read: OriginRead) -> Any:
        facts = SimpleNamespace(size=len(self._content), version=SimpleNamespace(etag='"etag"'))
        return ObjectOpened(cast("Any", facts), Span(0, facts.size), cast("Any", self))


async def test_an_index_is_copied_from_the_origin(tmp_path: Path) -> None:
    at_origin = Opened(index_bytes([member(f"{at:06}", 512 * (1 + at)) for at in range(3 * BLOCK_MEMBERS)]))
    index = await fetch_index(cast("Any", at_origin), NAME, tmp_path / "copies")
    assert (index.members, index.etag, at_origin.is_closed) == (3 * BLOCK_MEMBERS, '"etag"', True)
    assert await index.find("000300") == member("000300", 512 * 301)
    assert not list((tmp_path / "copies").iterdir()), "the copy has no name"


async def test_an_index_is_longer_than_what_is_copied_at_once(tmp_path: Path) -> None:
    prefix = random.Random(1).randbytes(1_500_000).hex()
    index = await fetch_index(cast("Any", Opened(index_bytes([member("a")], prefix=prefix))), NAME, tmp_path)
    assert index.index.description.prefixes == (prefix,)


@pytest.mark.parametrize("answer", [ErrorResponse(404, (), b""), Revalidated('"etag"', "")])
async def test_an_index_that_the_origin_does_not_send(tmp_path: Path, answer: ReadOutcome) -> None:
    class Refusing:
        async def open_read(self, _name: ObjectName, _read: OriginRead) -> ReadOutcome:
            return answer

    with pytest.raises(OriginBroken, match="can't be read"):
        await fetch_index(cast("Any", Refusing()), NAME, tmp_path)


@pytest.mark.parametrize("content", [b"", b"x" * 1000, index_bytes([member("a")])[:-1]])
async def test_nothing_is_left_of_a_copy_that_is_no_index(tmp_path: Path, content: bytes) -> None:
    at_origin, before = Opened(content), descriptors()
    with pytest.raises(MalformedPack):
        await fetch_index(cast("Any", at_origin), NAME, tmp_path)
    assert at_origin.is_closed
    assert descriptors() == before


async def test_a_directory_that_cannot_be_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    at_origin = Opened(index_bytes([member("a")]))
    with pytest.raises(StorageError, match="no file for the index"):
        await fetch_index(cast("Any", at_origin), NAME, tmp_path / "file")
    assert at_origin.is_closed


async def test_a_disk_without_space_is_a_storage_error(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    content = index_bytes([member(f"{at:06}", 512 * (1 + at)) for at in range(BLOCK_MEMBERS)])
    before = descriptors()
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(StorageError, match="no space is left"):
            await fetch_index(cast("Any", Opened(content)), NAME, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert descriptors() == before
