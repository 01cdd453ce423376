"""LMDB's file, read page by page without LMDB and without a memory map, so that damage is an exception.

LMDB trusts its pages: in its hands damage is a signal (SIGBUS, SIGSEGV, SIGABRT) or garbage. Here each page is checked
(lmdb_layout.py), and each belongs to one tree only. The check of the index and the salvage of its rows use this.
"""

import os
from collections.abc import Callable
from mmap import PAGESIZE
from pathlib import Path
from random import sample
from typing import Final, Self, TypeAlias

from forebay.storage.ssd.index.lmdb_layout import (
    HEADER,
    META_PAGES,
    META_SIZE,
    TABLE_NODE,
    Meta,
    PageDamaged,
    PageRef,
    Tree,
    parse_branch,
    parse_free_list,
    parse_leaf,
    parse_meta,
    parse_overflow,
    parse_tree,
)

OnDamage: TypeAlias = Callable[[PageRef, PageDamaged], None]
"""Called for a page that is left out, with everything below it."""
Row: TypeAlias = tuple[bytes, bytes]
"""Key and value."""
DATA_FILE: Final = "data.mdb"
MAX_UNWRITTEN: Final = 64 * 1024 * 1024
"""Bytes at the end of the file that LMDB may count without having written them, at most."""


class LmdbFile:
    """One commit of an LMDB file. Made by `open`, ended by `close`."""

    def __init__(self, fd: int, commit: int | None = None, *, is_salvage: bool = False) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._page_size = PAGESIZE
        metas, damage = self._read_metas()
        if commit is not None:
            metas = [meta for meta in metas if meta.commit == commit]
        elif len(metas) == META_PAGES and not _are_successive(*metas):
            damage = PageDamaged("the meta pages are of other commits")
        if not metas or (damage is not None and not is_salvage):
            raise damage or PageDamaged("the commit is in no meta page")
        self.damage = damage
        """The damage of the meta pages: the last commit may be missing."""
        self._meta = max(metas, key=lambda meta: meta.commit)
        if self.needed_size > 2 * self._size + MAX_UNWRITTEN:
            raise PageDamaged("the file is far shorter than it should be")
        self._used = bytearray(self._size // self._page_size + 1)

    @classmethod
    def open(cls, path: Path, commit: int | None = None, *, is_salvage: bool = False) -> Self:
        """Opens data.mdb in the folder `path`: its last commit, or the one of that number, which a reader of LMDB keeps
        from being overwritten. For a salvage one sound meta page is enough. Raises PageDamaged, and OSError if the file
        can't be opened."""
        fd = os.open(path / DATA_FILE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return cls(fd, commit, is_salvage=is_salvage)
        except BaseException:
            os.close(fd)
            raise

    def close(self) -> None:
        """Closes the file."""
        os.close(self._fd)

    @property
    def needed_size(self) -> int:
        """The size of the file that LMDB assumes."""
        return self._meta.page_count * self._page_size

    @property
    def used_pages(self) -> int:
        """The number of pages that have been found in use so far."""
        return self._used.count(1)

    def prepare_reads(self, *, of_all: bool) -> None:
        """Has the kernel read all of the file ahead, in the background; or read nothing ahead."""
        os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_WILLNEED if of_all else os.POSIX_FADV_RANDOM)

    def tables(self) -> dict[str, Tree]:
        """Returns the tables by their names. Raises PageDamaged."""
        main = self._meta.main
        trees: dict[str, Tree] = {}
        for ref in self.leaves(main):
            for key, value, flags, _ in parse_leaf(self._page(ref), main, ref):
                if flags != TABLE_NODE:
                    raise PageDamaged("a table's row is none")
                name = key.decode("ascii", "replace")
                trees[name] = parse_tree(name, value, self._meta.page_count)
        if (len(trees), self.used_pages) != (main.entries, main.pages):
            raise PageDamaged("the tables are of another number")
        return trees

    def leaves(self, tree: Tree, on_damage: OnDamage | None = None, at_most: int | None = None) -> list[PageRef]:
        """Returns the leaves of a tree in the order of their keys, unread. Raises PageDamaged; with `on_damage` that is
        called instead. `at_most`: so many pages of each level are looked at, chosen at random."""
        refs = [] if tree.root is None else self._claim([PageRef(tree.root, tree.depth, None, None)], on_damage)
        for _ in range(tree.depth - 1):
            children: list[PageRef] = []
            for ref in refs:
                try:
                    children += self._claim(parse_branch(self._page(ref), tree, ref), on_damage)
                except PageDamaged as damage:
                    if on_damage is None:
                        raise
                    on_damage(ref, damage)
            refs = children
            if at_most is not None and len(refs) > at_most:
                refs = [refs[n] for n in sorted(sample(range(len(refs)), at_most))]
        return refs

    def rows(self, tree: Tree, ref: PageRef) -> list[Row]:
        """Returns the rows of a leaf, in the order of their keys. Raises PageDamaged."""
        rows: list[Row] = []
        for key, value, flags, overflow in parse_leaf(self._page(ref), tree, ref):
            if flags == TABLE_NODE:
                raise PageDamaged(f"page {ref.number}: a table within a table")
            rows.append((key, value if overflow is None else self._overflow_value(*overflow)))
        return rows

    def check_free_pages(self) -> None:
        """Checks the lists of free pages, after all rows have been read: a page that is free and used would be
        overwritten. Raises PageDamaged."""
        tree, pages = self._meta.free, self.used_pages
        rows = [row for ref in self.leaves(tree) for row in self.rows(tree, ref)]
        if (len(rows), self.used_pages - pages) != (tree.entries, tree.pages):
            raise PageDamaged("the lists of free pages are of another number")
        free = [number for row in rows for number in parse_free_list(*row)]
        if len(set(free)) != len(free) or any(not META_PAGES <= number < self._meta.page_count for number in free):
            raise PageDamaged("a list of free pages is wrong")
        if any(number < len(self._used) and self._used[number] for number in free):
            raise PageDamaged("a page is free and used")

    def _claim(self, refs: list[PageRef], on_damage: OnDamage | None) -> list[PageRef]:
        """Returns those of the pages that exist and are not used elsewhere, and records their use."""
        claimed: list[PageRef] = []
        for ref in refs:
            try:
                self._claim_page(ref.number)
            except PageDamaged as damage:
                if on_damage is None:
                    raise
                on_damage(ref, damage)
            else:
                claimed.append(ref)
        return claimed

    def _claim_page(self, number: int) -> None:
        if not META_PAGES <= number < self._meta.page_count or (number + 1) * self._page_size > self._size:
            raise PageDamaged(f"page {number}: beyond the end of the file")
        if self._used[number]:
            raise PageDamaged(f"page {number}: used twice")
        self._used[number] = 1

    def _overflow_value(self, number: int, size: int) -> bytes:
        content = self._read(number * self._page_size, HEADER + size, number)
        for page in parse_overflow(content, number, size, self._page_size):
            self._claim_page(page)
        return content[HEADER:]

    def _page(self, ref: PageRef) -> bytes:
        return self._read(ref.number * self._page_size, self._page_size, ref.number)

    def _read(self, offset: int, size: int, page: int) -> bytes:
        try:
            raw = os.pread(self._fd, size, offset) if offset + size <= self._size else b""
        except OSError as error:
            raise PageDamaged(f"page {page}: {error}") from error
        if len(raw) < size:
            raise PageDamaged(f"page {page}: beyond the end of the file")
        return raw

    def _read_metas(self) -> tuple[list[Meta], PageDamaged | None]:
        metas: list[Meta] = []
        damage: PageDamaged | None = None
        for number in range(META_PAGES):
            try:
                meta = parse_meta(self._read(number * self._page_size, META_SIZE, number), number)
            except PageDamaged as error:
                damage = error
            else:
                metas.append(meta)
                self._page_size = meta.page_size
        return metas, damage


def _are_successive(first: Meta, second: Meta) -> bool:
    return abs(first.commit - second.commit) == 1 or first.commit == second.commit == 0
