import os
import struct
import threading
from pathlib import Path

import pytest

from forebay.core.errors import IndexDamaged
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_check import AFTER_CLEAN_END, AFTER_UNCLEAN_END, check_index, check_shared_index
from forebay.storage.ssd.index.lmdb_file import LmdbFile
from harness.index_pages import LEAF, PAGE, IndexPages, fill_index
from harness.ssd_rig import MIB


def test_a_new_index_is_sound(tmp_path: Path) -> None:
    Index.open(tmp_path, 64 * MIB, exclusive=True).close()
    assert check_index(tmp_path, AFTER_CLEAN_END) <= (tmp_path / "data.mdb").stat().st_size


def test_a_small_index_is_checked_whole_after_a_clean_end(tmp_path: Path) -> None:
    fill_index(tmp_path)
    pages = IndexPages(tmp_path)
    for leaf in leaves(tmp_path):
        damaged = IndexPages(tmp_path)
        damaged.patch(leaf, 0, b"\xff")
        damaged.save()
        with pytest.raises(IndexDamaged):
            check_index(tmp_path, AFTER_CLEAN_END)
        pages.save()
    check_index(tmp_path, AFTER_CLEAN_END)


def leaves(path: Path) -> list[int]:
    file = LmdbFile.open(path)
    found = [leaf.number for leaf in file.leaves(file.tables()["blocks"])]
    file.close()
    return found


def test_a_large_index_is_sampled(tmp_path: Path) -> None:
    fill_index(tmp_path)
    pages = IndexPages(tmp_path)
    for leaf in leaves(tmp_path)[1:]:
        pages.patch(leaf, 0, b"\xff\xff\xff")
    pages.save()
    results = set()
    for _ in range(200):
        try:
            results.add(check_index(tmp_path, 1) > 0)
        except IndexDamaged:
            results.add(False)
    assert results == {True, False}, "one leaf of many was looked at"


def test_a_table_with_fewer_rows_than_it_says_is_damage(tmp_path: Path) -> None:
    """A leaf whose last row is gone, as an older version of the same page would be."""
    fill_index(tmp_path)
    pages = IndexPages(tmp_path)
    leaf = pages.find(LEAF)
    lower, upper = struct.unpack_from("=HH", pages.content, leaf * PAGE + 12)
    offsets = struct.unpack_from(f"={(lower - 16) // 2}H", pages.content, leaf * PAGE + 16)
    first = offsets.index(upper)
    remaining = [offset for nth, offset in enumerate(offsets) if nth != first]
    pages.patch(leaf, 12, struct.pack("=HH", lower - 2, upper + 48))
    pages.patch(leaf, 16, struct.pack(f"={len(remaining)}H", *remaining))
    pages.save()
    with pytest.raises(IndexDamaged, match="999 rows in place of 1000"):
        check_index(tmp_path, AFTER_UNCLEAN_END)


def test_a_file_longer_than_its_tables_is_sound(tmp_path: Path) -> None:
    fill_index(tmp_path)
    os.truncate(tmp_path / "data.mdb", (tmp_path / "data.mdb").stat().st_size + 10 * PAGE)
    check_index(tmp_path, AFTER_UNCLEAN_END)


def test_free_pages_may_be_missing_at_the_end(tmp_path: Path) -> None:
    """LMDB counts pages that it never wrote if it did not need them in the end."""
    fill_index(tmp_path)
    pages = IndexPages(tmp_path)
    last = len(pages.content) // PAGE
    for meta in (0, 1):
        pages.patch(meta, 136, struct.pack("=Q", last))
    pages.save()
    assert check_index(tmp_path, AFTER_UNCLEAN_END) == (last + 1) * PAGE


def test_a_shared_index_is_checked_while_others_write(tmp_path: Path) -> None:
    fill_index(tmp_path)
    index = Index.open(tmp_path, 64 * MIB, exclusive=True)
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            with index.write_transaction() as txn:
                number += 1
                txn.put(bytes(24) + (number % 500).to_bytes(4, "big"), bytes(12), db=index.tables.blocks)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(30):
            check_shared_index(index)
    finally:
        ended.set()
        writer.join()
    pages = IndexPages(tmp_path)
    pages.patch(pages.find(LEAF), 0, b"\xff")
    pages.save()
    with pytest.raises(IndexDamaged):
        check_shared_index(index)
    index.close()
