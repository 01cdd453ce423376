"""The layout of LMDB's pages, parsed from bytes that may be damaged. Damage raises PageDamaged, and nothing else.

    page 0, 1     meta pages; commit n is in page n modulo 2, and the later of both counts
    others        branch, leaf or overflow page of one of the trees, or free

    page          offset  size                                         in the machine's byte order
                       0     8  its own number
                       8     2  zero
                      10     2  1 branch, 2 leaf, 4 overflow, 8 meta
                      12     4  overflow page: number of pages
                      12     2  end of the offsets of the nodes
                      14     2  begin of the nodes, which fill the page from there on without gaps
                      16    2n  offset of each node, in the order of the keys
    leaf node          0     4  length of the value
                       4     2  1: the value is on overflow pages, 2: it is a tree
                       6     2  length of the key
                       8        key, then value, or the number of the first overflow page
    branch node        0     6  number of the child
                       6     2  length of the key
                       8        the first key below the child; that of the first node means nothing

The trees: free pages, main (whose rows are the other trees), and the tables. A page is accepted if LMDB could have
written it in its place: its own number, its kind, each node, and keys in order, between those of its parents.

Follows lmdb/mdb.c of LMDB 0.9 (MDB_page, MDB_node, MDB_meta, MDB_db), https://git.openldap.org/openldap/openldap, on
64-bit machines. `lmdb.verify` checks the same things of a whole file; tests compare both.
"""

import struct
import sys
from operator import lt
from typing import Final, NamedTuple

from forebay.core.errors import IndexDamaged

HEADER: Final = 16
META_PAGES: Final = 2
META_SIZE: Final = 152
FREE_TREE: Final = "free pages"
MAIN_TREE: Final = "main"
MAX_DEPTH: Final = 32  # of LMDB's cursors
MIN_BRANCH: Final = 2  # nodes; LMDB ends the process at fewer
TABLE_NODE: Final = 2

_MAGIC: Final = 0xBEEFC0DE
_DATA_VERSION: Final = 1
_NO_PAGE: Final = 0xFFFF_FFFF_FFFF_FFFF
_INTEGER_KEYS: Final = 8
_BRANCH, _LEAF, _OVERFLOW, _META = 1, 2, 4, 8
_BIG_NODE: Final = 1

_PAGE = struct.Struct("=QHHHH")
_OVERFLOW_PAGE = struct.Struct("=QHHI")
_META_START = struct.Struct("=IIQQ")
_TREE = struct.Struct("=IHHQQQQQ")
_META_END = struct.Struct("=QQ")
_NODE = struct.Struct("=HHHH")
_NUMBER: Final = 8
_TREES_AT: Final = HEADER + _META_START.size


class PageDamaged(IndexDamaged):
    """A page is damaged."""


class Tree(NamedTuple):
    """A tree: its root, None if it is empty, and its numbers of levels, of rows and of pages."""

    name: str
    root: int | None
    depth: int
    entries: int
    pages: int


class Meta(NamedTuple):
    """A commit, as its meta page describes it."""

    commit: int
    page_size: int
    page_count: int
    free: Tree
    main: Tree


class PageRef(NamedTuple):
    """A page of a tree, with the keys that its parents leave to it."""

    number: int
    level: int
    """1: a leaf."""
    lower: bytes | None
    """The lower bound of its keys, inclusive; None: its parents don't say."""
    upper: bytes | None
    """The upper bound of its keys, exclusive; None: likewise."""


class Node(NamedTuple):
    """A node of a leaf."""

    key: bytes
    value: bytes
    flags: int
    overflow: tuple[int, int] | None
    """The value is on overflow pages: the number of the first, and the length of the value."""


def parse_meta(raw: bytes, number: int) -> Meta:
    """Parses the first META_SIZE bytes of the meta page of that number."""
    own, _, flags, _, _ = _PAGE.unpack_from(raw)
    magic, version, address, _ = _META_START.unpack_from(raw, HEADER)
    page_size, env_flags = _TREE.unpack_from(raw, _TREES_AT)[:2]
    last_page, commit = _META_END.unpack_from(raw, _TREES_AT + 2 * _TREE.size)
    if (own, flags, magic, version, address) != (number, _META, _MAGIC, _DATA_VERSION, 0):
        raise PageDamaged("a meta page is none")
    if page_size.bit_count() != 1 or not 512 <= page_size <= 32768 or env_flags != _INTEGER_KEYS:
        raise PageDamaged("a meta page has other flags")
    if commit and commit % META_PAGES != number:
        raise PageDamaged("a meta page is of another commit")
    count = last_page + 1
    free = parse_tree(FREE_TREE, raw[_TREES_AT:], count, page_size)
    return Meta(commit, page_size, count, free, parse_tree(MAIN_TREE, raw[_TREES_AT + _TREE.size :], count))


def parse_tree(name: str, raw: bytes, page_count: int, pad: int = 0) -> Tree:
    """Parses the description of a tree in a file of `page_count` pages."""
    if len(raw) < _TREE.size:
        raise PageDamaged(f"{name}: a tree cut short")
    own_pad, flags, depth, branches, leaves, overflow, entries, root = _TREE.unpack_from(raw)
    pages = branches + leaves + overflow
    if (own_pad, flags) != (pad, _INTEGER_KEYS if name == FREE_TREE else 0):
        raise PageDamaged(f"{name}: other flags")
    if root == _NO_PAGE:
        if depth or entries or pages:
            raise PageDamaged(f"{name}: rows without a root")
        return Tree(name, None, 0, 0, 0)
    if not 1 <= depth <= MAX_DEPTH or not META_PAGES <= root < page_count:
        raise PageDamaged(f"{name}: no such root")
    return Tree(name, root, depth, entries, pages)


def parse_branch(page: bytes, tree: Tree, ref: PageRef) -> list[PageRef]:
    """Parses the branch page that `ref` names and returns its children."""
    offsets = _node_offsets(page, ref)
    numbers: list[int] = []
    keys: list[bytes] = []
    ends: list[int] = []
    for offset in offsets:
        low, middle, high, key_size = _NODE.unpack_from(page, offset)
        end = offset + _NODE.size + key_size
        numbers.append(low | middle << 16 | high << 32)
        keys.append(page[offset + _NODE.size : end])
        ends.append(end)
    _check_packing(page, ref, offsets, ends)
    if len(numbers) < MIN_BRANCH and tree.name != FREE_TREE:
        raise PageDamaged(f"page {ref.number}: a branch of one")
    _check_order(tree, ref, keys[1:])
    bounds = [ref.lower, *keys[1:], ref.upper]
    return [PageRef(number, ref.level - 1, bounds[n], bounds[n + 1]) for n, number in enumerate(numbers)]


def parse_leaf(page: bytes, tree: Tree, ref: PageRef) -> list[Node]:
    """Parses the leaf page that `ref` names. A value on overflow pages is empty here."""
    offsets = _node_offsets(page, ref)
    nodes: list[Node] = []
    ends: list[int] = []
    for offset in offsets:
        low, high, flags, key_size = _NODE.unpack_from(page, offset)
        begin = offset + _NODE.size + key_size
        end = begin + (low | high << 16)
        key = page[offset + _NODE.size : begin]
        if flags == _BIG_NODE:
            number = int.from_bytes(page[begin : begin + _NUMBER], sys.byteorder)
            nodes.append(Node(key, b"", 0, (number, end - begin)))
            end = begin + _NUMBER
        elif flags in {0, TABLE_NODE}:
            nodes.append(Node(key, page[begin:end], flags, None))
        else:
            raise PageDamaged(f"page {ref.number}: a node of no kind")
        ends.append(end)
    _check_packing(page, ref, offsets, ends)
    _check_order(tree, ref, [node.key for node in nodes])
    return nodes


def parse_overflow(start: bytes, number: int, size: int, page_size: int) -> range:
    """Parses the start of the overflow page of that number, whose value has `size` bytes. Returns its pages."""
    own, _, flags, count = _OVERFLOW_PAGE.unpack_from(start)
    if (own, flags) != (number, _OVERFLOW) or not HEADER + size <= count * page_size:
        raise PageDamaged(f"page {number}: another page is in its place")
    return range(number, number + count)


def parse_free_list(key: bytes, value: bytes) -> tuple[int, ...]:
    """Parses a row of the free pages and returns their numbers."""
    count = int.from_bytes(value[:_NUMBER], sys.byteorder)
    if len(key) != _NUMBER or len(value) != _NUMBER * (count + 1):
        raise PageDamaged("a list of free pages is none")
    return struct.unpack_from(f"={count}Q", value, _NUMBER)


def _node_offsets(page: bytes, ref: PageRef) -> tuple[int, ...]:
    own, _, flags, lower, upper = _PAGE.unpack_from(page)
    if own != ref.number or flags != (_LEAF if ref.level == 1 else _BRANCH):
        raise PageDamaged(f"page {ref.number}: another page is in its place")
    if lower <= HEADER or lower % 2 or not lower <= upper <= len(page):
        raise PageDamaged(f"page {ref.number}: impossible bounds")
    offsets = struct.unpack_from(f"={(lower - HEADER) // 2}H", page, HEADER)
    if max(offsets) + _NODE.size > len(page):
        raise PageDamaged(f"page {ref.number}: a node beyond the page")
    return offsets


def _check_packing(page: bytes, ref: PageRef, offsets: tuple[int, ...], ends: list[int]) -> None:
    """The nodes fill the page without gaps, each at an even offset."""
    begin: int = _PAGE.unpack_from(page)[4]
    for offset, end in sorted(zip(offsets, ends, strict=True)):
        if offset != begin:
            raise PageDamaged(f"page {ref.number}: its nodes don't fill it")
        begin = end + end % 2
    if begin != len(page):
        raise PageDamaged(f"page {ref.number}: its nodes don't fill it")


def _check_order(tree: Tree, ref: PageRef, keys: list[bytes]) -> None:
    """The keys ascend, between those of the parents."""
    if tree.name == FREE_TREE:
        numbers = [int.from_bytes(key, sys.byteorder) for key in keys]
        is_ordered = all(map(lt, numbers, numbers[1:]))
    else:
        is_above = ref.lower is None or not keys or ref.lower <= keys[0]
        is_below = ref.upper is None or not keys or keys[-1] < ref.upper
        is_ordered = is_above and is_below and all(map(lt, keys, keys[1:]))
    if not is_ordered:
        raise PageDamaged(f"page {ref.number}: its keys are in another order")
