"""Where names become addresses: on disk an object is only ever a hash.

    object address    16 bytes   blake2b, keyed with the directory's salt, of origin id, bucket and key
    block address     28 bytes   object address, generation (8), number (4, big-endian: in the order of blocks)
    listing key     <=417 bytes  the first 400 bytes of "bucket NUL key", NUL, object address

The hash is cryptographic, and keyed: who chooses keys can neither make two of them meet nor put a forged record,
made for an address that is known beforehand, into an object's bytes. Each text goes in with its length, so that
("a", "bc") and ("ab", "c") differ.

The listing key keeps names in the byte order of their keys, so that a prefix is a range. LMDB's keys end at 511 bytes:
names that agree in their first 400 are told apart by the address, and put in order when they are read (key_order.py).
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
LISTED_BYTES: Final = 400

_NAMES: Final = 4096
_LENGTH = struct.Struct(">I")


def text_bytes(text: str) -> bytes:
    """Any text as bytes, and different texts as different bytes: also one with lone surrogates, which UTF-8 refuses."""
    return text.encode("utf-8", "surrogatepass")


class Addressing:
    """The addresses of one origin in one directory."""

    def __init__(self, origin_id: str, salt: bytes) -> None:
        origin = text_bytes(origin_id)
        self.object_address = lru_cache(_NAMES)(self._of_object)
        """Of an ObjectName; those of the latest ones are remembered."""
        self._origin = blake2b(_LENGTH.pack(len(origin)) + origin, digest_size=OBJECT_ADDRESS, key=salt)

    def _of_object(self, name: ObjectName) -> bytes:
        digest = self._origin.copy()
        bucket = text_bytes(name.bucket)
        digest.update(_LENGTH.pack(len(bucket)) + bucket + text_bytes(name.key))
        return digest.digest()

    def block_address(self, block: BlockId) -> bytes:
        return self.object_address(block.object) + block.generation + _LENGTH.pack(block.number)


def ordered_name(name: ObjectName) -> bytes:
    """The name in bytes that are ordered as listings are."""
    return text_bytes(name.bucket) + b"\0" + text_bytes(name.key)


def listing_prefix(bucket: str, prefix: str) -> bytes:
    """What the listing keys of all objects whose keys start with `prefix` start with, and perhaps some more."""
    return ordered_name(ObjectName(bucket, prefix))[:LISTED_BYTES]


def listing_key(name: ObjectName, address: bytes) -> bytes:
    """`address` must be `of_object(name)`."""
    return listing_prefix(name.bucket, name.key) + b"\0" + address
