import os
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.core.errors import IndexDamaged
from forebay.core.names import Generation, ObjectName
from forebay.storage.ssd.index.head_codec import decode_head, encode_head
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.index.listing_keys import listing_prefix
from forebay.storage.ssd.segments.addressing import Addressing
from forebay.storage.ssd.segments.block_location import BlockLocation
from harness.ssd_rig import MIB, block_id, head_for

ADDRESSING = Addressing(lambda _: "origin", bytes(16))


def opened(path: Path) -> Index:
    path.mkdir(exist_ok=True)
    return Index.open(path, 64 * MIB, exclusive=True)


def fill(index: Index, rows: int) -> None:
    with index.write_transaction() as txn:
        changes = IndexUpdates(txn, index.tables)
        for number in range(rows):
            changes.put_block(
                ADDRESSING.block_address(block_id(f"key-{number % 97}", number)), BlockLocation(1, number, 5)
            )


def test_rows_outlive_the_process(tmp_path: Path) -> None:
    index = opened(tmp_path)
    fill(index, 1000)
    name, head = head_for("key-5")
    with index.write_transaction() as txn:
        IndexUpdates(txn, index.tables).put_head(name, ADDRESSING.object_address(name), head)
    index.close()
    index = opened(tmp_path)
    assert index.location(ADDRESSING.block_address(block_id("key-5", 102))) == BlockLocation(1, 102, 5)
    assert index.location(ADDRESSING.block_address(block_id("key-5", 103))) is None
    assert decode_head(index.head(ADDRESSING.object_address(name)) or b"") == (name, head)
    assert index.count() == (1000, 1)
    assert index.generation_bytes(ADDRESSING.block_address(block_id("key-5"))[:24]) == 11 * 5
    index.close()


def test_a_head_is_dropped_only_as_it_was_read(tmp_path: Path) -> None:
    """Another one may have been written since, for which the drop is not meant."""
    index = opened(tmp_path)
    name, head = head_for("key")
    newer = head_for("key", '"two"')[1]
    address, rows = ADDRESSING.object_address(name), listing_prefix("bucket", "")
    for put in (head, newer):
        with index.write_transaction() as txn:
            IndexUpdates(txn, index.tables).put_head(name, address, put)
    for dropped, left in ((head, newer), (newer, None)):
        with index.write_transaction() as txn:
            IndexUpdates(txn, index.tables).remove_head_at(address, encode_head(name, dropped))
        raw = index.head(address)
        assert (raw and decode_head(raw)) == (left and (name, left))
        assert len(index.list_names(rows, b"", 10)) == (left is not None)
    index.close()


@pytest.mark.parametrize("keep", [0, 1, 4096, 8192, 20_000, -1, -4096])
def test_a_truncated_file_is_noticed_before_it_is_mapped(tmp_path: Path, keep: int) -> None:
    index = opened(tmp_path)
    fill(index, 5000)
    index.close()
    file = tmp_path / "data.mdb"
    size = file.stat().st_size
    os.truncate(file, keep if keep >= 0 else size + keep)
    if keep == 0:
        opened(tmp_path).close()  # an empty file is a new one
        return
    with pytest.raises(IndexDamaged):
        opened(tmp_path)


def test_a_garbage_index_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").write_bytes(bytes(range(256)) * 100)
    with pytest.raises(IndexDamaged):
        opened(tmp_path)


def test_a_damaged_lock_file_does_not_matter_to_a_single_process(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "lock.mdb").write_bytes(b"garbage" * 1000)
    opened(tmp_path).close()


def test_a_block_is_moved_only_from_its_old_location(tmp_path: Path) -> None:
    index = opened(tmp_path)
    address = bytes(28)
    old, new, newer = BlockLocation(1, 0, 5), BlockLocation(2, 8, 5), BlockLocation(3, 8, 5)
    with index.write_transaction() as txn:
        changes = IndexUpdates(txn, index.tables)
        changes.put_block(address, old)
        assert changes.move_block(address, old, new)
        assert not changes.move_block(address, old, newer)
        assert not changes.move_block(address, old, None)
    assert index.location(address) == new
    with index.write_transaction() as txn:
        assert IndexUpdates(txn, index.tables).move_block(address, new, None)
    assert index.location(address) is None
    index.close()


def test_removal_is_in_steps_and_spares_other_blocks(tmp_path: Path) -> None:
    index = opened(tmp_path)
    addresses = {key: ADDRESSING.object_address(ObjectName("bucket", key)) for key in "abc"}
    with index.write_transaction() as txn:
        changes = IndexUpdates(txn, index.tables)
        for key in "abc":
            for number in range(10):
                for generation in (1, 2):
                    changes.put_block(
                        ADDRESSING.block_address(block_id(key, number, generation)), BlockLocation(1, 1, 1)
                    )
    steps = [False]
    with index.write_transaction() as txn:
        changes = IndexUpdates(txn, index.tables)
        while not steps[-1]:
            steps.append(changes.remove_blocks(addresses["b"], Generation((2).to_bytes(8, "big")), 4))
    assert len(steps) == 1 + 3
    assert index.generation_bytes(addresses["b"]) == 10
    assert index.generation_bytes(addresses["a"]) == index.generation_bytes(addresses["c"]) == 20
    with index.write_transaction() as txn:
        assert IndexUpdates(txn, index.tables).remove_blocks(addresses["b"], None, 100)
    assert not index.has_object(addresses["b"])
    assert index.has_object(addresses["a"])
    assert index.without_blocks(list(addresses.values())) == [addresses["b"]]
    index.close()


def test_an_unchanged_head_is_not_written_again(tmp_path: Path) -> None:
    index = opened(tmp_path)

    def put(etag: str, now: float) -> bytes:
        name, head = head_for("a", etag, now)
        with index.write_transaction() as txn:
            IndexUpdates(txn, index.tables).put_head(name, bytes(16), head)
        return index.head(bytes(16)) or b""

    first = put('"one"', 100.0)
    assert put('"one"', 100.5) == first
    assert put('"one"', 102.0) != first
    assert put('"one"', 101.0) == encode_head(*head_for("a", '"one"', 101.0)), "going back is news"
    assert put('"two"', 101.0) == encode_head(*head_for("a", '"two"', 101.0))
    index.close()


def test_known_checksums_are_written_to_an_unchanged_head(tmp_path: Path) -> None:
    """Else they would be requested again after each restart."""
    index = opened(tmp_path)
    name, head = head_for("a")
    known = replace(head, facts=replace(head.facts, checksums_known=True))
    with index.write_transaction() as txn:
        for each in (head, known):
            IndexUpdates(txn, index.tables).put_head(name, bytes(16), each)
    stored = decode_head(index.head(bytes(16)) or b"")
    assert stored is not None
    assert stored.head.facts.checksums_known
    index.close()


def test_names_are_listed_in_order_and_from_a_cursor_on(tmp_path: Path) -> None:
    index = opened(tmp_path)
    keys = ["a", "a/1", "a/2", "b", "x" * 600 + "1", "x" * 600 + "2"]
    with index.write_transaction() as txn:
        for key in reversed(keys):
            name, head = head_for(key)
            IndexUpdates(txn, index.tables).put_head(name, ADDRESSING.object_address(name), head)

    def listed(prefix: str, after: bytes = b"", limit: int = 100) -> list[tuple[bytes, str]]:
        found = []
        for cursor, raw in index.list_names(listing_prefix("bucket", prefix), after, limit):
            named = decode_head(raw)
            assert named is not None
            found.append((cursor, named.name.key))
        return found

    assert [key for _, key in listed("")][:4] == keys[:4]
    assert {key for _, key in listed("x")} == set(keys[4:])
    assert [key for _, key in listed("a/")] == ["a/1", "a/2"]
    first = listed("a", limit=1)
    assert [key for _, key in first] == ["a"]
    assert [key for _, key in listed("a", after=first[0][0])] == ["a/1", "a/2"]
    assert listed("nothing") == []
    index.close()


def test_segment_numbers_are_never_used_twice(tmp_path: Path) -> None:
    index = opened(tmp_path)
    with index.write_transaction() as txn:
        changes = IndexUpdates(txn, index.tables)
        assert [changes.add_segment() for _ in range(3)] == [0, 1, 2]
        changes.finish_segment(1, 77)
        changes.remove_segment(2)
    assert index.segments() == {0: 0, 1: 77}
    index.close()
    index = opened(tmp_path)
    with index.write_transaction() as txn:
        assert IndexUpdates(txn, index.tables).add_segment() == 3
    index.close()
