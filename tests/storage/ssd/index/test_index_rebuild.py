from pathlib import Path

import pytest

from forebay.core.errors import IndexDamaged
from forebay.core.names import ObjectName
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_check import AFTER_UNCLEAN_END, check_index
from forebay.storage.ssd.index.index_rebuild import rebuild_index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.index.listing_keys import listing_prefix
from forebay.storage.ssd.index.lmdb_file import LmdbFile
from forebay.storage.ssd.index.segment_rescan import RescanPlan
from forebay.storage.ssd.segments.addressing import Addressing
from forebay.storage.ssd.segments.block_location import BlockLocation
from forebay.storage.ssd.segments.record import record_size
from forebay.storage.ssd.ssd_directory import SsdDirectory
from harness.index_pages import IndexPages
from harness.ssd_rig import MIB, ORIGIN, block_id, head_for

ADDRESSING = Addressing(lambda _: ORIGIN.id, b"s" * 16)
SIZE = record_size(100)
OBJECTS = 300


@pytest.fixture
def directory(tmp_path: Path) -> SsdDirectory:
    """A directory with a segment as long as its rows need, of zeros, and an index of OBJECTS."""
    directory = SsdDirectory.claim(tmp_path / "ssd", None)
    directory.initialise(CacheOrigins.single(ORIGIN))
    index = Index.open(directory.index, 64 * MIB, exclusive=True)
    with index.write_transaction() as txn:
        updates = IndexUpdates(txn, index.tables)
        updates.add_segment()
        updates.add_segment()
        for number in range(OBJECTS):
            name, head = head_for(f"key-{number}")
            updates.put_head(name, ADDRESSING.object_address(name), head)
            updates.put_block(ADDRESSING.block_address(block_id(f"key-{number}")), BlockLocation(1, number * SIZE, 100))
    index.close()
    (directory.segments / "0000000001.seg").write_bytes(bytes(OBJECTS * SIZE))
    return directory


def reopened(directory: SsdDirectory) -> Index:
    check_index(directory.index, AFTER_UNCLEAN_END)
    return Index.open(directory.index, 64 * MIB, exclusive=True)


def test_every_row_of_a_sound_index_is_kept(directory: SsdDirectory) -> None:
    before = (directory.index / "data.mdb").read_bytes()
    assert rebuild_index(directory, 64 * MIB, ADDRESSING) == (OBJECTS, OBJECTS, False)
    index = reopened(directory)
    assert index.count() == (OBJECTS, OBJECTS)
    assert index.segments() == {1: OBJECTS * SIZE}
    assert len(index.list_names(listing_prefix("bucket", "key-1"), b"", 1000)) == 111
    assert index.rescan_plan() is None
    with index.write_transaction() as txn:
        assert IndexUpdates(txn, index.tables).add_segment() == 2, "a number that no file has"
    index.close()
    assert [path.read_bytes() for path in directory.discarded.glob("*/index/data.mdb")] == [before]


def test_rows_of_damaged_pages_are_left_out_and_searched_for(directory: SsdDirectory) -> None:
    file = LmdbFile.open(directory.index)
    tree = file.tables()["blocks"]
    leaf = file.leaves(tree)[1]
    lost = file.rows(tree, leaf)
    file.close()
    pages = IndexPages(directory.index)
    pages.patch(leaf.number, 0, bytes(4096))
    pages.save()
    assert rebuild_index(directory, 64 * MIB, ADDRESSING) == (OBJECTS, OBJECTS - len(lost), True)
    index = reopened(directory)
    plan = RescanPlan.decode(index.rescan_plan() or b"")
    assert plan is not None
    assert plan.end == 2
    searched = {number for number in range(OBJECTS) if plan.includes(address(number))}
    assert missing(index) < searched
    assert len(missing(index)) == len(lost)
    assert len(searched) == len(lost) + 1, "the row before is there, and stays what it is"
    index.close()


@pytest.mark.parametrize(("leaf", "row"), [(1, 2), (0, -2)], ids=["raised", "lowered"])
def test_rows_outside_the_bounds_of_their_page_are_searched_for(directory: SsdDirectory, leaf: int, row: int) -> None:
    """The key between two leaves is damaged, so that rows of one of them seem to be out of order."""
    file = LmdbFile.open(directory.index)
    tree = file.tables()["blocks"]
    leaves = file.leaves(tree)
    lost, changed = file.rows(tree, leaves[leaf]), file.rows(tree, leaves[leaf])[row][0]
    file.close()
    pages = IndexPages(directory.index)
    assert tree.root is not None
    assert leaves[1].lower is not None
    pages.patch(tree.root, pages.page(tree.root).index(leaves[1].lower), changed)
    pages.save()
    assert rebuild_index(directory, 64 * MIB, ADDRESSING) == (OBJECTS, OBJECTS - len(lost), True)
    index = reopened(directory)
    plan = RescanPlan.decode(index.rescan_plan() or b"")
    assert plan is not None
    assert missing(index) == {number for number in range(OBJECTS) if address(number) in dict(lost)}
    assert all(plan.includes(address(number)) for number in missing(index))
    index.close()


def address(number: int) -> bytes:
    return ADDRESSING.block_address(block_id(f"key-{number}"))


def missing(index: Index) -> set[int]:
    return {number for number in range(OBJECTS) if index.location(address(number)) is None}


def test_rows_that_can_not_be_true_are_left_out(directory: SsdDirectory) -> None:
    index = Index.open(directory.index, 64 * MIB, exclusive=True)
    with index.write_transaction() as txn:
        updates = IndexUpdates(txn, index.tables)
        updates.put_block(address(0), BlockLocation(7, 0, 100))
        updates.put_block(address(1), BlockLocation(1, 3, 100))
        updates.put_block(address(2), BlockLocation(1, (OBJECTS - 1) * SIZE, 101 + SIZE))
        updates.put_block(address(3), BlockLocation(1, 0, 0))
        txn.put(address(4), b"short", db=index.tables.blocks)
        txn.put(b"short", BlockLocation(1, 0, 100).encode(), db=index.tables.blocks)
        name, head = head_for("key-5")
        txn.put(ADDRESSING.object_address(name), b"garbage", db=index.tables.heads)
        updates.put_head(name, ADDRESSING.object_address(ObjectName("bucket", "key-6")), head)
        txn.put(b"nothing", b"garbage", db=index.tables.segments)
        txn.put(b"next_segment", b"garbage", db=index.tables.meta)
    index.close()
    assert rebuild_index(directory, 64 * MIB, ADDRESSING) == (OBJECTS - 2, OBJECTS - 5, False)
    reopened(directory).close()


@pytest.mark.parametrize("content", [None, b"", b"garbage" * 5000])
def test_without_a_readable_index_all_is_searched_for(directory: SsdDirectory, content: bytes | None) -> None:
    data = directory.index / "data.mdb"
    data.unlink()
    if content is not None:
        data.write_bytes(content)
    assert rebuild_index(directory, 64 * MIB, ADDRESSING) == (0, 0, True)
    index = reopened(directory)
    plan = RescanPlan.decode(index.rescan_plan() or b"")
    assert plan is not None
    assert all(plan.includes(address(number)) for number in range(OBJECTS))
    index.close()


def test_a_rebuild_that_broke_off_is_begun_again(directory: SsdDirectory) -> None:
    (directory.path / "index.new").mkdir()
    (directory.path / "index.new" / "data.mdb").write_bytes(b"garbage")
    assert rebuild_index(directory, 64 * MIB, ADDRESSING) == (OBJECTS, OBJECTS, False)
    reopened(directory).close()


def test_a_rebuild_that_fails_leaves_the_index_alone(directory: SsdDirectory) -> None:
    before = (directory.index / "data.mdb").read_bytes()
    (directory.path / "index.new").write_text("in the way")
    with pytest.raises((OSError, IndexDamaged)):
        rebuild_index(directory, 64 * MIB, ADDRESSING)
    assert (directory.index / "data.mdb").read_bytes() == before
