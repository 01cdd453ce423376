"""The check of the index before it is opened: LMDB has no checksums, and its memory map turns damage into a signal.

The file is read page by page (lmdb_file.py), so damage can't end the check itself. It finds every page that LMDB could
not use safely, and every table that lacks rows, but not a row whose bytes were changed in place. Such a row does no
harm: a head has a checksum, a record repeats its address, and rows of segments are validated.
"""

from contextlib import closing
from pathlib import Path
from typing import Final

from forebay.core.errors import IndexDamaged
from forebay.storage.ssd.index.index import TABLES, Index
from forebay.storage.ssd.index.lmdb_file import LmdbFile
from forebay.storage.ssd.index.lmdb_layout import PageDamaged

AFTER_CLEAN_END: Final = 128
"""Pages of each level of a table: all of a small index, a sample of a large one; some 20 ms at most."""
AFTER_UNCLEAN_END: Final = 100_000
"""Pages of each level of a table: all of five million rows, in some 5 seconds."""


OPEN_ATTEMPTS: Final = 10


def check_index(path: Path, at_most: int) -> int:
    """Checks the index in the folder `path`, `at_most` pages of each level of a table.

    Returns the size that its file should have at least: the last pages may be missing if they are free. Raises
    IndexDamaged, and OSError if the file can't be opened.
    """
    with closing(LmdbFile.open(path)) as file:
        _check_file(file, at_most)
        return file.needed_size


def check_shared_index(index: Index) -> None:
    """Checks an index that this process and others have open. Raises IndexDamaged."""
    for attempt in range(1, OPEN_ATTEMPTS + 1):
        with index.env.begin() as txn:  # keeps the pages of this commit from being overwritten
            try:
                file = LmdbFile.open(index.path, txn.id())
            except (PageDamaged, OSError) as error:
                # Its meta page has been overwritten if two commits came in between.
                if attempt == OPEN_ATTEMPTS:
                    raise IndexDamaged(str(error)) from error
                continue
            with closing(file):
                _check_file(file, AFTER_UNCLEAN_END)
            return


def _check_file(file: LmdbFile, at_most: int) -> None:
    file.prepare_reads(of_all=at_most > AFTER_CLEAN_END)
    trees = file.tables()
    is_whole = True
    for name, tree in trees.items():
        pages = file.used_pages
        leaves = file.leaves(tree, at_most=at_most)
        is_whole = is_whole and len(leaves) < at_most
        rows = sum(len(file.rows(tree, leaf)) for leaf in leaves)
        if is_whole and (rows, file.used_pages - pages) != (tree.entries, tree.pages):
            raise PageDamaged(f"{name}: {rows} rows in place of {tree.entries}")
    if not set(trees) <= set(TABLES):
        raise IndexDamaged("not the tables of an index")
    if is_whole:
        file.check_free_pages()
