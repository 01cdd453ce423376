"""Addresses: on disk, an object is only ever a hash.

    object address    16 bytes   blake2b, keyed with the directory's salt, of origin id, bucket and key
    block address     28 bytes   object address, generation (8), number (4, big-endian: in the order of blocks)

The hash is cryptographic and keyed: whoever chooses keys can neither make two of them collide nor put a forged record,
made for an address known beforehand, into an object's bytes. Each text is hashed with its length, so that ("a", "bc")
and ("ab", "c") differ. The names of objects are in their heads (head_codec.py) and listing keys (listing_keys.py).
"""

import struct
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from forebay.core.names import BlockId, ObjectName

OBJECT_ADDRESS: Final = 16
GENERATION: Final = 8
BLOCK_ADDRESS: Final = 28
SALT: Final = 16

_MEMOIZED_NAMES: Final = 4096
_MEMOIZED_BUCKETS: Final = 256
_LENGTH = struct.Struct(">I")


def text_bytes(text: str) -> bytes:
    """Encodes any text, different texts as different bytes: also lone surrogates, which UTF-8 refuses."""
    return text.encode("utf-8", "surrogatepass")


class Addressing:
    """The addresses in one directory."""

    def __init__(self, origin_id: Callable[[str], str], salt: bytes) -> None:
        """`origin_id`: the id of the origin that has a bucket; the same for a bucket as long as this is used."""
        self.object_address = lru_cache(_MEMOIZED_NAMES)(self._object_address)
        """Returns the address of an ObjectName. The latest ones are memoized."""
        self._origin_id = origin_id
        self._salt = salt
        self._hash_of_bucket = lru_cache(_MEMOIZED_BUCKETS)(self._begin_hash)

    def _object_address(self, name: ObjectName) -> bytes:
        digest = self._hash_of_bucket(name.bucket).copy()
        digest.update(text_bytes(name.key))
        return digest.digest()

    def _begin_hash(self, bucket: str) -> blake2b:
        """Returns the hash of all objects of a bucket, but for their keys."""
        origin, name = text_bytes(self._origin_id(bucket)), text_bytes(bucket)
        content = _LENGTH.pack(len(origin)) + origin + _LENGTH.pack(len(name)) + name
        return blake2b(content, digest_size=OBJECT_ADDRESS, key=self._salt)

    def block_address(self, block: BlockId) -> bytes:
        """Returns the address of a block."""
        return self.object_address(block.object) + block.generation + _LENGTH.pack(block.number)
