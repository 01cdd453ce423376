"""The compact form of a plan: numbers in a list of keys that is sent once (docs/plans.md).

.forebay/plans/keys/<SHA-256>    the list: a key a line, UTF-8
.forebay/plans/<name>            0  8   "FBPLAN1\\n"
                                 8  32  the SHA-256 of the list
                                40  4   zero
                                44  4   the number of entries n, little-endian
                                48  4n  for each entry its key's number in the list, from 0, u32 little-endian
"""

import re
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final, NamedTuple

from forebay.core.names import MAX_KEY_BYTES
from forebay_client.client_errors import InvalidRequest
from forebay_client.objects import key_problem

_MAGIC: Final = b"FBPLAN1\n"
_ENDS: Final = re.compile(r"[\n\r\t]")
_UNUSUAL: Final = re.compile("[\0\n\r\t\ud800-\udfff]")
_SHORT: Final = MAX_KEY_BYTES // 4
"""Characters of which no key has more bytes than are allowed."""


class PlanKeyList(NamedTuple):
    """A list of keys, as it is sent."""

    digest: bytes
    """The SHA-256 of `content`."""
    content: bytes


def line_problem(key: str) -> str:
    """Why a key can't be a line of a list; empty: it can."""
    if problem := key_problem(key):
        return problem
    if _ENDS.search(key):
        return "a key with a line end or a tab can't be in a list of keys"
    if len(key) > MAX_KEY_BYTES or (not key.isascii() and len(key.encode()) > MAX_KEY_BYTES):
        return f"a key has at most {MAX_KEY_BYTES} bytes"
    return ""


def check_lines(bucket: str, keys: Sequence[str]) -> None:
    """Checks that each key can be a line. Raises InvalidRequest, which names the first that can't."""
    if all(keys) and max(map(len, keys), default=0) <= _SHORT and not _UNUSUAL.search("".join(keys)):
        return
    for key in keys:
        if problem := line_problem(key):
            raise InvalidRequest(problem, bucket=bucket, key=key)


def key_list(keys: Sequence[str]) -> PlanKeyList:
    """The list of these keys, which were checked."""
    content = "".join([f"{key}\n" for key in keys]).encode()
    return PlanKeyList(sha256(content).digest(), content)


def checked_order(order: Iterable[int], count: int) -> "array[int]":
    """The numbers of an order of `count` keys. Raises InvalidRequest for one that is none."""
    try:
        numbers = order if isinstance(order, array) and order.typecode == "I" else array("I", order)
    except (OverflowError, TypeError) as error:
        raise InvalidRequest(f"an order is numbers of keys, from 0: {error}") from error
    if numbers and max(numbers) >= count:
        raise InvalidRequest(f"there is no key {max(numbers)}: there are {count}")
    return numbers


def compact_plan(digest: bytes, numbers: "array[int]") -> bytes:
    """The plan of the keys with these numbers, which were checked."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return _MAGIC + digest + struct.pack("<II", 0, len(numbers)) + numbers.tobytes()
