"""The file of a snapshot: blocks come back as they were written, or not at all."""

from pathlib import Path

import pytest

from forebay.core.errors import StorageError
from forebay.namespace.snapshot_file import BlockAddress, SnapshotFile
from forebay.protocol.xml.listed_page import KeyEncoding
from harness.listed_keys import damage_snapshots, names_in

KEYS = [f"key/{number:05d}é" for number in range(1000)]
FACTS = [f"<Size>{number}</Size>" for number in range(1000)]


async def test_blocks_come_back_as_they_were_written(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path / "listings", 1 << 20)
    addresses = [await file.append(KEYS[at : at + 50], FACTS[at : at + 50], KeyEncoding()) for at in range(0, 1000, 50)]
    for number in [*range(20), 3, 0]:
        block = await file.read(addresses[number])
        at = number * 50
        assert block.keys == KEYS[at : at + 50]
        assert [block.facts(nth) for nth in range(50)] == FACTS[at : at + 50]
        assert block.find(KEYS[at + 7]) == 7
        assert block.find("key/00007") is None
    assert file.size < 90 * 1000


async def test_a_namespace_that_needs_the_room_is_deflated(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, 400_000)
    addresses = [await file.append(KEYS, FACTS, KeyEncoding()) for _ in range(8)]
    assert addresses[-1].length * 4 < addresses[0].length
    assert file.size < 400_000 < 8 * addresses[0].length
    for address in addresses:
        block = await file.read(address)
        assert (block.keys, block.facts(999)) == (KEYS, FACTS[999])


async def test_the_file_has_no_name(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, 1 << 20)
    await file.append(KEYS, FACTS, KeyEncoding())
    assert names_in(tmp_path) == []


async def test_more_than_the_capacity_is_refused(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, 100)
    with pytest.raises(StorageError, match="more than 100 bytes"):
        await file.append(KEYS, FACTS, KeyEncoding())


@pytest.mark.parametrize("position", [0, 4, 8, 20, -1])
async def test_a_damaged_block_is_not_served(tmp_path: Path, position: int) -> None:
    file = SnapshotFile(tmp_path, 1 << 20)
    address = await file.append(KEYS, FACTS, KeyEncoding())
    assert damage_snapshots(tmp_path, position) == 1
    with pytest.raises(StorageError, match="damaged"):
        await file.read(address)


async def test_a_file_that_was_cut_short_is_not_served(tmp_path: Path) -> None:
    file = SnapshotFile(tmp_path, 1 << 20)
    with pytest.raises(StorageError, match="cut short"):
        await file.read(BlockAddress(0, 20))


def test_a_directory_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        SnapshotFile(tmp_path / "file", 1)
