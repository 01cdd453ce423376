"""Copies of indexes in memory, and views of the packs that they are of."""

import os

from forebay.core.fences import Fences
from forebay.core.names import ObjectName
from forebay.namespace.packs.index_file import IndexFile
from forebay.namespace.packs.pack_view import PackView
from forebay.protocol.packs.pack_index import IndexWriter, open_index
from forebay.protocol.packs.packed_member import PackedMember
from harness.packed_objects import SHARDS

NAME = ObjectName("bucket", "packed/0.index")


def member(key: str, offset: int = 512, shard: int = 0) -> PackedMember:
    return PackedMember(key, shard, offset, 10, '"0123456789abcdef0123456789abcdef"', 1_700_000_000, (), bytes(8))


def opened(content: bytes, kept: bytes | None = None) -> IndexFile:
    """The index of these bytes, of which the copy has `kept`. It is nowhere of which the kernel says what is cached."""
    fd = os.memfd_create("index")
    os.write(fd, content if kept is None else kept)
    return IndexFile(NAME, '"etag"', fd, open_index(content))


def pack(at: float, members: list[PackedMember], *prefixes: str, damaged: bool = False) -> IndexFile:
    """A pack that was made `at`; nothing of it is decoded."""
    writer = IndexWriter()
    pieces = [writer.add(each) for each in members]
    content = b"".join((*pieces, writer.finish(prefixes or ("",), SHARDS, at)))
    kept = bytearray(content)
    if damaged:
        kept[open_index(content).span(0).start] ^= 1
    return opened(content, bytes(kept))


def view_of(*indexes: IndexFile, fences: Fences | None = None, shadowed: frozenset[str] = frozenset()) -> PackView:
    fences = fences or Fences()
    return PackView("bucket", indexes, shadowed, fences, fences.now(), 0.0)
