"""Each field of a page that LMDB relies on, changed on its own. The bytes are those of a real file."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.storage.ssd.index.index_check import AFTER_UNCLEAN_END, check_index
from forebay.storage.ssd.index.lmdb_file import LmdbFile
from forebay.storage.ssd.index.lmdb_layout import META_SIZE, PageDamaged, PageRef, parse_branch, parse_leaf, parse_meta
from harness.index_pages import BRANCH, LEAF, OVERFLOW, PAGE, IndexPages, fill_index

FIRST_OFFSET = 16


def patch_node(pages: IndexPages, kind: int, nth: int, field: int, raw: bytes) -> None:
    number = pages.find(kind)
    (offset,) = struct.unpack_from("=H", pages.content, number * PAGE + FIRST_OFFSET + 2 * nth)
    pages.patch(number, offset + field, raw)


DAMAGES: dict[str, Callable[[IndexPages], None]] = {
    "meta: magic": lambda pages: pages.patch(0, 16, b"\0"),
    "meta: version": lambda pages: pages.patch(0, 20, b"\7"),
    "meta: page size": lambda pages: pages.patch(0, 40, b"\0\0\1"),
    "meta: flags": lambda pages: pages.patch(0, 44, b"\1"),
    "meta: commit": lambda pages: pages.patch(1, 144, b"\xfe"),
    "meta: commit of the same parity": lambda pages: pages.patch(
        1, 144, bytes([(pages.content[PAGE + 144] + 4) % 256])
    ),
    "meta: last page": lambda pages: pages.patch_metas(136, b"\xff\xff\xff\xff"),
    "meta: main root": lambda pages: pages.patch_metas(128, b"\xff\xff"),
    "page: own number": lambda pages: pages.patch(pages.find(LEAF), 0, b"\xff"),
    "page: kind": lambda pages: pages.patch(pages.find(LEAF), 10, bytes([BRANCH])),
    "page: lower above upper": lambda pages: pages.patch(pages.find(LEAF), 12, b"\xff\xff"),
    "page: no nodes": lambda pages: pages.patch(pages.find(LEAF), 12, b"\x10\0"),
    "page: upper": lambda pages: pages.patch(pages.find(LEAF), 14, b"\xfe\x0f"),
    "page: offset beyond the page": lambda pages: pages.patch(pages.find(LEAF), FIRST_OFFSET, b"\xff\xff"),
    "page: the same offset twice": lambda pages: pages.patch(
        pages.find(LEAF), FIRST_OFFSET, bytes(pages.content[pages.find(LEAF) * PAGE + 18 :][:2])
    ),
    "node: length of the value": lambda pages: patch_node(pages, LEAF, 0, 2, b"\xff\xff"),
    "node: length of the key": lambda pages: patch_node(pages, LEAF, 0, 6, b"\xff"),
    "node: flags": lambda pages: patch_node(pages, LEAF, 0, 4, b"\4"),
    "branch: child beyond the file": lambda pages: patch_node(pages, BRANCH, 1, 0, b"\xff\xff\xff\xff\xff\xff"),
    "branch: child is itself": lambda pages: patch_node(pages, BRANCH, 1, 0, struct.pack("=I", pages.find(BRANCH))),
    "branch: one node": lambda pages: pages.patch(pages.find(BRANCH), 12, b"\x12\0"),
    "branch: key": lambda pages: patch_node(pages, BRANCH, 2, 8, b"\0\0"),
    "overflow: own number": lambda pages: pages.patch(pages.find(OVERFLOW), 0, b"\0"),
    "overflow: kind": lambda pages: pages.patch(pages.find(OVERFLOW), 10, bytes([LEAF])),
    "overflow: too few pages": lambda pages: pages.patch(pages.find(OVERFLOW), 12, b"\0"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_field_is_found(tmp_path: Path, damage: str) -> None:
    fill_index(tmp_path)
    check_index(tmp_path, AFTER_UNCLEAN_END)
    pages = IndexPages(tmp_path)
    DAMAGES[damage](pages)
    pages.save()
    with pytest.raises(PageDamaged):
        check_index(tmp_path, AFTER_UNCLEAN_END)


def test_keys_out_of_their_parents_bounds_are_damage(tmp_path: Path) -> None:
    fill_index(tmp_path)
    file = LmdbFile.open(tmp_path)
    tree = file.tables()["blocks"]
    first, second = file.leaves(tree)[:2]
    file.close()
    content = bytes(IndexPages(tmp_path).content)
    page = content[first.number * PAGE : (first.number + 1) * PAGE]
    assert parse_leaf(page, tree, first)
    with pytest.raises(PageDamaged):
        parse_leaf(page, tree, first._replace(lower=second.lower, upper=second.upper))
    with pytest.raises(PageDamaged):
        parse_leaf(page, tree, first._replace(upper=b"\0"))


def test_zeros_are_damage_to_each_parser(tmp_path: Path) -> None:
    fill_index(tmp_path, 1)
    file = LmdbFile.open(tmp_path)
    tree = file.tables()["blocks"]
    file.close()
    with pytest.raises(PageDamaged):
        parse_meta(bytes(META_SIZE), 0)
    with pytest.raises(PageDamaged):
        parse_leaf(bytes(PAGE), tree, PageRef(0, 1, None, None))
    with pytest.raises(PageDamaged):
        parse_branch(bytes(PAGE), tree, PageRef(0, 2, None, None))
