"""The compact form of a plan: numbers in a list of keys that is sent once (docs/plans.md).

.forebay/plans/keys/<SHA-256>    the list: a key a line, UTF-8
.forebay/plans/<name>            0  8   "FBPLAN1\\n"
                                 8  32  the SHA-256 of the list
                                40  4   zero
                                44  4   the number of entries n, little-endian
                                48  4n  for each entry its key's number in the list, from 0, u32 little-endian
"""

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from forebay_client.client_errors import InvalidRequest

_MAGIC: Final = b"FBPLAN1\n"


class PlanKeyList(NamedTuple):
    """A list of keys, as it is sent."""

    digest: bytes
    """Its SHA-256."""
    content: bytes


def key_list(keys: Sequence[str]) -> PlanKeyList:
    """The list of these keys. Raises InvalidRequest for keys that a line can't hold."""
    content = "".join([f"{key}\n" for key in keys]).encode()
    if content.count(b"\n") != len(keys) or b"\r" in content or b"\t" in content or "" in keys:
        raise InvalidRequest("a key that is empty, or has a line end or a tab, can't be in a list of keys")
    return PlanKeyList(sha256(content).digest(), content)


def compact_plan(digest: bytes, order: Iterable[int], count: int) -> bytes:
    """The plan of the keys with these numbers, of `count` keys. Raises InvalidRequest for a number that is none."""
    try:
        numbers = order if isinstance(order, array) and order.typecode == "I" else array("I", order)
    except (OverflowError, TypeError) as error:
        raise InvalidRequest(f"an order is numbers of keys, from 0: {error}") from error
    if numbers and max(numbers) >= count:
        raise InvalidRequest(f"there is no key {max(numbers)}: there are {count}")
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return _MAGIC + digest + struct.pack("<II", 0, len(numbers)) + numbers.tobytes()
