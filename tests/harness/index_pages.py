"""Pages of a real LMDB file, to be changed by tests."""

from pathlib import Path
from random import Random
from typing import Final

from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.index_updates import IndexUpdates
from forebay.storage.ssd.index.lmdb_file import LmdbFile
from forebay.storage.ssd.index.lmdb_layout import parse_leaf
from forebay.storage.ssd.segments.block_location import BlockLocation
from harness.ssd_rig import MIB, head_for

PAGE: Final = 4096
BRANCH, LEAF, OVERFLOW = 1, 2, 4


def fill_index(path: Path, blocks: int = 1000) -> None:
    """Makes an index with so many blocks, some heads with long values, and free pages."""
    random = Random(1)
    path.mkdir(parents=True, exist_ok=True)
    index = Index.open(path, 64 * MIB, exclusive=True)
    for start in range(0, blocks, 100):
        with index.write_transaction() as txn:
            updates = IndexUpdates(txn, index.tables)
            updates.add_segment()
            for number in range(start, min(start + 100, blocks)):
                updates.put_block(random.randbytes(28), BlockLocation(start // 100, 8 * number, 100))
            name, head = head_for(f"key-{start}", '"' + "e" * 5000 + '"')
            updates.put_head(name, random.randbytes(16), head)
    with index.write_transaction() as txn:
        txn.drop(index.tables.names, delete=False)
    index.close()


class IndexPages:
    """The pages of data.mdb in a folder."""

    def __init__(self, path: Path) -> None:
        self.data = path / "data.mdb"
        self.content = bytearray(self.data.read_bytes())

    def find(self, kind: int) -> int:
        """Returns the number of a page of that kind that is in use: of the blocks, or with a long value of a head."""
        file = LmdbFile.open(self.data.parent)
        trees = file.tables()
        leaf, heads = file.leaves(trees["blocks"])[1], file.leaves(trees["heads"])[0]
        file.close()
        if kind == OVERFLOW:
            nodes = parse_leaf(self.page(heads.number), trees["heads"], heads)
            return next(node.overflow[0] for node in nodes if node.overflow)
        return leaf.number if kind == LEAF else trees["blocks"].root or 0

    def page(self, number: int) -> bytes:
        """The bytes of a page."""
        return bytes(self.content[number * PAGE : (number + 1) * PAGE])

    def patch(self, number: int, offset: int, raw: bytes) -> None:
        """Overwrites bytes of a page."""
        start = number * PAGE + offset
        self.content[start : start + len(raw)] = raw

    def patch_metas(self, offset: int, raw: bytes) -> None:
        """Overwrites bytes of both meta pages."""
        for number in (0, 1):
            self.patch(number, offset, raw)

    def save(self) -> None:
        self.data.write_bytes(self.content)
