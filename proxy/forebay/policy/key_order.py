"""The order of keys: ends of prefixes, neighbours, and the splitting of intervals whose keys are not known.

Keys are ordered by their UTF-8 bytes, which is the order of code points, and so of Python's strings.

    prefix_end("a/")             "a0"       the first string behind all that begin with "a/"
    predecessor("ab")            "aa\\U0010ffff"   nothing that is a key lies between the two
    split_key("c17", "c93", "0123456789")     "c5"

An interval is (low, high]: without its low end, with its high one; high None is the end of the namespace.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from forebay.protocol.listing_query import LAST_CHARACTER

_SURROGATES = range(0xD800, 0xE000)


def prefix_end(prefix: str) -> str | None:
    """The first string behind all that begin with `prefix`; None: there is none."""
    bare = prefix.rstrip(LAST_CHARACTER)
    if not bare:
        return None
    code = ord(bare[-1]) + 1
    return bare[:-1] + chr(_SURROGATES.stop if code in _SURROGATES else code)


def predecessor(key: str) -> str:
    """A string before `key`, which is not empty, with no key between the two."""
    code = ord(key[-1]) - 1
    if code < 1:
        return key[:-1]
    return key[:-1] + chr(_SURROGATES.start - 1 if code in _SURROGATES else code) + LAST_CHARACTER


def split_key(low: str, high: str | None, alphabet: Sequence[str]) -> str | None:
    """A string m with low < m < high that splits the interval in two; None: no such string is known.

    `alphabet`: the characters that keys are made of, in order. At the first position where a character of it fits in
    between, the one in the middle is chosen.
    """
    for position in range(len(low) + 1):
        first = bisect_right(alphabet, low[position]) if position < len(low) else 0
        is_bounded = high is not None and high[:position] == low[:position]
        last = len(alphabet)
        if is_bounded and high is not None:
            if len(high) <= position:
                return None  # low begins with high: the interval is empty
            last = bisect_left(alphabet, high[position])
        if first < last:
            return low[:position] + alphabet[(first + last) // 2]
    return None


def common_length(low: str, high: str | None) -> int:
    """Returns the length of the common prefix of an interval's ends: the shorter, the more keys may lie between."""
    if high is None:
        return 0
    length = 0
    for ours, theirs in zip(low, high, strict=False):
        if ours != theirs:
            break
        length += 1
    return length
