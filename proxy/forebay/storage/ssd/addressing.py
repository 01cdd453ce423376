"""Addresses: on disk, an object is only ever a hash.

    object address    16 bytes   blake2b, keyed with the directory's salt, of origin id, bucket and key
    block address     28 bytes   object address, generation (8), number (4, big-endian: in the order of blocks)

The hash is cryptographic and keyed: whoever chooses keys can neither make two of them collide nor put a forged record,
made for an address known beforehand, into an object's bytes. Each text is hashed with its length, so that ("a", "bc")
and ("ab", "c") differ. The names of objects are in their heads (head_codec.py) and listing keys (listing_keys.py).
"""

import struct
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from forebay.core.names import BlockId, ObjectName

OBJECT_ADDRESS: Final = 16
GENERATION: Final = 8
BLOCK_ADDRESS: Final = 28
SALT: Final = 16

_MEMOIZED_NAMES: Final = 4096
_LENGTH = struct.Struct(">I")


def text_bytes(text: str) -> bytes:
    """Encodes any text, different texts as different bytes: also lone surrogates, which UTF-8 refuses."""
    return text.encode("utf-8", "surrogatepass")


class Addressing:
    """The addresses of one origin in one directory."""

    def __init__(self, origin_id: str, salt: bytes) -> None:
        origin = text_bytes(origin_id)
        self.object_address = lru_cache(_MEMOIZED_NAMES)(self._object_address)
        """Returns the address of an ObjectName. The latest ones are memoized."""
        self._origin = blake2b(_LENGTH.pack(len(origin)) + origin, digest_size=OBJECT_ADDRESS, key=salt)

    def _object_address(self, name: ObjectName) -> bytes:
        digest = self._origin.copy()
        bucket = text_bytes(name.bucket)
        digest.update(_LENGTH.pack(len(bucket)) + bucket + text_bytes(name.key))
        return digest.digest()

    def block_address(self, block: BlockId) -> bytes:
        """Returns the address of a block."""
        return self.object_address(block.object) + block.generation + _LENGTH.pack(block.number)
