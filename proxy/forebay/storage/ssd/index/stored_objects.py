"""Stored objects: the objects with heads in the index, in the order of their names, for listings of the cache."""

from typing import NamedTuple

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.storage.ssd.index.head_codec import decode_head
from forebay.storage.ssd.index.index import Index
from forebay.storage.ssd.index.listing_keys import listing_prefix
from forebay.storage.ssd.segments.addressing import Addressing


class StoredObject(NamedTuple):
    """An object in the tier, for listings."""

    name: ObjectName
    head: Head
    cached: int
    """Bytes of the head's generation."""
    cursor: bytes
    """The cursor of the next object."""


class StoredObjects:
    """Lists an index. Blocks, and raises the errors of the index (INDEX_ERRORS)."""

    def __init__(self, index: Index, addressing: Addressing) -> None:
        self._index, self._addressing = index, addressing

    def listing(self, bucket: str, prefix: str, after: bytes, limit: int) -> list[StoredObject]:
        """See SsdTier.listing."""
        start = listing_prefix(bucket, prefix)
        listed: list[StoredObject] = []
        while not listed and (rows := self._index.list_names(start, after, limit)):
            after = rows[-1][0]
            for cursor, raw in rows:
                named = decode_head(raw)
                if named is not None and named.name.key.startswith(prefix):
                    address = self._addressing.object_address(named.name)
                    if self._index.head(address) != raw:
                        continue  # of the origin that had the bucket before, or replaced meanwhile
                    cached = self._index.generation_bytes(address + named.head.generation)
                    listed.append(StoredObject(named.name, named.head, cached, cursor))
        return listed
