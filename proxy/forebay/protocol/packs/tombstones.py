"""Tombstones: members of a pack that a DELETE has hidden, in small objects beside the index of the pack.

    bucket/packed/train/index.fbpack
    bucket/packed/train/index.deleted/0199b1c2d3e4-5f6a7b8c.json      {"deleted": [["train/1.jpg", "packed/x.tar", 512],
                                      milliseconds random                          ...]}

A tombstone names a member by its key, its shard and its offset there. No shard is written twice under one key, so a
tombstone says the same for ever: an object of the key that is packed later has another place. Tombstones are only
added, and their union counts. So two writers need no lock.

Several of these objects may be replaced by one (`merged_key`). Its name sorts after all names that it replaces, and
these sort before the name of the index. The merged object, or the index without the member, is written before they are
deleted. So a listing in order misses no tombstone.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from forebay.core.errors import MalformedPack
from forebay.protocol.packs.pack_index import INDEX_SUFFIX

MAX_TOMBSTONES_BYTES: Final = 256 << 20
"""Bytes of one object with tombstones."""
TOKEN_BYTES: Final = 4
"""The length in bytes of the random part of a name."""
_FOLDER: Final = ".deleted/"
_NAME: Final = re.compile(r"([0-9a-f]{12})-[0-9a-f]{8}\.json")


class Tombstone(NamedTuple):
    """One hidden member."""

    key: str
    shard: str
    """The key of its shard."""
    offset: int
    """The offset of its bytes in the shard."""


def tombstones_prefix(index_key: str) -> str:
    """Returns the prefix of the keys of an index's tombstones."""
    return index_key.removesuffix(INDEX_SUFFIX) + _FOLDER


def tombstones_key(index_key: str, at: float, token: bytes) -> str:
    """Returns the key of an object with tombstones. `at`: seconds since the epoch; `token`: TOKEN_BYTES at random."""
    return _key(index_key, int(at * 1000), token)


def merged_key(index_key: str, merged: Sequence[str], at: float, token: bytes) -> str:
    """Returns the key of the object that replaces those under the keys `merged`."""
    last = max(int(_name_of(key)[:12], 16) for key in merged)
    return _key(index_key, max(int(at * 1000), last + 1), token)


def index_key_of(key: str) -> str | None:
    """Returns the key of the index whose tombstones lie under `key`; None: that is no key of tombstones."""
    pack, folder, name = key.rpartition(_FOLDER)
    return pack + INDEX_SUFFIX if folder and pack and _NAME.fullmatch(name) else None


def encode_tombstones(tombstones: Iterable[Tombstone]) -> bytes:
    """Returns the content of an object with tombstones."""
    return json.dumps({"deleted": sorted(map(list, set(tombstones)))}, ensure_ascii=False).encode()


def parse_tombstones(content: bytes) -> list[Tombstone]:
    """Returns the tombstones of an object, in the order of their keys. Raises MalformedPack."""
    try:
        document = json.loads(content)
        found = [Tombstone(str(key), str(shard), int(offset)) for key, shard, offset in document["deleted"]]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MalformedPack(f"tombstones that can't be read: {error!r}") from None
    return sorted(found)


def _key(index_key: str, milliseconds: int, token: bytes) -> str:
    return f"{tombstones_prefix(index_key)}{milliseconds:012x}-{token.hex()}.json"


def _name_of(key: str) -> str:
    return key.rpartition("/")[2]
