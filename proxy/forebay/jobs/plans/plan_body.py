"""The bodies that plans are sent in: read as they arrive, and written to disk as plan entries.

    text        UTF-8, a key a line, optionally a tab and `first-last` (bytes, inclusive; `first-` to the end).
                Empty lines are skipped; a line may end in CR LF; a byte order mark at the start is skipped.
    compact     offset  size
                     0     8   "FBPLAN1\\n"
                     8    32   SHA-256 of the body of a key list that was sent before (text, without ranges)
                    40     4   zero
                    44     4   the number of entries n, little-endian
                    48    4n   for each entry its key's number in that list, from 0, u32 little-endian

Errors name the line, or the entry, from 1. Work is done in short steps: a body of a million lines must not block the
event loop. Keys that the sender may not read are left out and counted.
"""

import re
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

from forebay.core.cooperative import CooperativeWork
from forebay.core.errors import S3Error
from forebay.core.names import MAX_KEY_BYTES, ObjectName
from forebay.jobs.plans.plan_entries import WHOLE
from forebay.policy.access import permit_read
from forebay.policy.grants import Principal, may_read_all_below

MAX_ENTRIES: Final = 4_000_000
"""Entries of one plan."""
MAGIC: Final = b"FBPLAN1\n"
HEADER_SIZE: Final = 48
_STEP: Final = 32 << 10
"""Bytes of text in one step: some 0.3 ms."""
_LARGEST: Final = WHOLE - 1
_OTHER_VERSION: Final = re.compile(rb"FBPLAN[0-9]+\r?(\n|$)")

Sink = Callable[[str, bytes], None]
"""Appends bytes to a file of the plan: `keys`, `offsets`, `ranges` or `indices`."""


class ReadableKeys:
    """The keys of a bucket that a principal may read, by the grants in force."""

    def __init__(self, principal: Principal, bucket: str) -> None:
        self._principal = principal
        self._bucket = bucket
        self._covered = ""
        """A prefix below which everything may be read, if `_is_covered`."""
        self._is_covered = False

    def allows_all(self, keys: Sequence[str]) -> bool:
        """Whether all may be read, as far as one look tells."""
        if not keys:
            return True
        low, high = min(keys), max(keys)
        if self._is_covered and low.startswith(self._covered) and high.startswith(self._covered):
            return True
        prefix = _common_prefix(low, high)
        if not may_read_all_below(self._principal, self._bucket, prefix):
            return False
        self._covered, self._is_covered = prefix, True
        return True

    def allows(self, key: str) -> bool:
        """Whether one may be read."""
        return permit_read(self._principal, ObjectName(self._bucket, key)) is not None


class TextPlan:
    """Reads the text form. `readable` None: a key list, whose keys may be anybody's and have no ranges."""

    def __init__(self, sink: Sink, readable: ReadableKeys | None) -> None:
        self._sink = sink
        self._readable = readable
        self._rest = b""
        self._is_begun = False
        self._line = 0
        self._size = 0
        self._has_ranges = False
        self.entries = 0
        self.dropped = 0
        """Lines whose keys the sender may not read."""
        sink("keys", b"")
        sink("offsets", array("I", [0]).tobytes())

    def feed(self, piece: bytes) -> CooperativeWork[None]:
        """Reads a piece of the body. Raises S3Error."""
        for start in range(0, len(piece), _STEP):
            content = self._rest + piece[start : start + _STEP]
            cut = content.rfind(b"\n") + 1
            self._rest = content[cut:]
            if cut:
                self._read(content[: cut - 1])
            if len(self._rest) > 2 * MAX_KEY_BYTES:
                raise _error(self._line + 1, "the line is too long")
            yield

    def close(self) -> None:
        """The body has ended. Raises S3Error."""
        rest, self._rest = self._rest, b""
        if rest:
            self._read(rest)

    def _read(self, content: bytes) -> None:
        """Reads whole lines, without the last line feed."""
        if not self._is_begun:
            self._is_begun = True
            content = content.removeprefix(BOM_UTF8)
            if _OTHER_VERSION.match(content):
                raise _error(1, f"this is a compact form of another version; known is {MAGIC.decode().strip()}")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            number = self._line + 1 + content.count(b"\n", 0, error.start)
            raise _error(number, "the line is not UTF-8") from None
        lines = text.split("\n")
        is_plain = not ("\t" in text or "\r" in text or "\0" in text or "" in lines)
        if is_plain and max(map(len, lines)) * 4 <= MAX_KEY_BYTES and not self._has_ranges and self._is_readable(lines):
            self._line += len(lines)
            self._append(lines)
            return
        keys: list[str] = []
        bounds: list[int] = []
        for text_line in lines:
            self._line += 1
            key, first, last = self._parse(text_line)
            if not key:
                continue
            if self._readable is not None and not self._readable.allows(key):
                self.dropped += 1
                continue
            keys.append(key)
            bounds += (first, last)
        if not self._has_ranges and any(
            first or last != WHOLE for first, last in zip(*[iter(bounds)] * 2, strict=True)
        ):
            self._has_ranges = True
            for start in range(0, self.entries, 4096):
                self._sink("ranges", array("Q", [0, WHOLE] * (min(4096, self.entries - start))).tobytes())
        self._append(keys)
        if self._has_ranges:
            self._sink("ranges", array("Q", bounds).tobytes())

    def _is_readable(self, keys: Sequence[str]) -> bool:
        return self._readable is None or self._readable.allows_all(keys)

    def _parse(self, line: str) -> tuple[str, int, int]:
        key, tab, span = line.removesuffix("\r").partition("\t")
        if "\0" in key:
            raise _error(self._line, "a key has no NUL character")
        if len(key.encode()) > MAX_KEY_BYTES:
            raise _error(self._line, f"a key has at most {MAX_KEY_BYTES} bytes")
        if not tab:
            return key, 0, WHOLE
        if self._readable is None:
            raise _error(self._line, "a list of keys has no ranges")
        if not key:
            raise _error(self._line, "there is no key before the range")
        first, dash, last = span.partition("-")
        if not (dash and _is_number(first) and (not last or _is_number(last))):
            raise _error(self._line, "a range is two byte positions, first-last")
        start, end = int(first), int(last) if last else WHOLE
        if end < start or start > _LARGEST:
            raise _error(self._line, "the range ends before it begins")
        return key, start, min(end, WHOLE)

    def _append(self, keys: list[str]) -> None:
        if not keys:
            return
        self.entries += len(keys)
        if self.entries > MAX_ENTRIES:
            raise too_many_entries()
        encoded = [key.encode() for key in keys]
        content = b"\n".join(encoded) + b"\n"
        if self._size + len(content) >= 1 << 32:
            raise too_many_entries()
        offsets = array("I", accumulate((len(key) + 1 for key in encoded), initial=self._size))
        self._size = offsets[-1]
        self._sink("keys", content)
        self._sink("offsets", offsets[1:].tobytes())


class CompactPlan:
    """Reads the compact form, behind its header. `count`: entries announced; `keys`: keys in the list; `readable`:
    which keys of the list may be read, None for all of them."""

    def __init__(
        self, sink: Sink, count: int, keys: int, readable: Callable[[Sequence[int]], list[bool]] | None
    ) -> None:
        self._sink = sink
        self._count = count
        self._keys = keys
        self._readable = readable
        self._rest = b""
        self._read_entries = 0
        self.entries = 0
        self.dropped = 0
        sink("indices", b"")
        if count > MAX_ENTRIES:
            raise too_many_entries()

    def feed(self, piece: bytes) -> CooperativeWork[None]:
        """Reads a piece of the indices. Raises S3Error."""
        for start in range(0, len(piece), _STEP):
            content = self._rest + piece[start : start + _STEP]
            cut = len(content) // 4 * 4
            self._rest = content[cut:]
            self._append(array("I", content[:cut]))
            yield

    def _append(self, indices: "array[int]") -> None:
        if not indices:
            return
        if max(indices) >= self._keys:
            nth = next(nth for nth, index in enumerate(indices) if index >= self._keys)
            entry = self._read_entries + nth + 1
            message = f"Entry {entry}: there is no key {indices[nth]} in the list, which has {self._keys}."
            raise S3Error("InvalidArgument", message, Line=str(entry))
        self._read_entries += len(indices)
        if self._read_entries > self._count:
            raise self._wrong_count()
        if self._readable is not None:
            kept = array("I", [index for index, yes in zip(indices, self._readable(indices), strict=True) if yes])
            self.dropped += len(indices) - len(kept)
            indices = kept
        self.entries += len(indices)
        self._sink("indices", indices.tobytes())

    def close(self) -> None:
        """The body has ended. Raises S3Error."""
        if self._rest or self._read_entries != self._count:
            raise self._wrong_count()

    def _wrong_count(self) -> S3Error:
        entry = min(self._read_entries, self._count) + 1
        message = f"Entry {entry}: {self._count} entries were announced, and the body does not end behind them."
        return S3Error("InvalidArgument", message, Line=str(entry))


def read_header(header: bytes) -> tuple[str, int]:
    """The digest of the key list in hexadecimal, and the number of entries, of a compact header. Raises S3Error."""
    if len(header) != HEADER_SIZE or header[40:44] != bytes(4):
        raise S3Error(
            "InvalidArgument", "The header of the compact form has 48 bytes, with zeros from 40 to 43.", Line="1"
        )
    return header[8:40].hex(), int.from_bytes(header[44:48], "little")


def too_many_entries() -> S3Error:
    """The refusal of a plan that is too long."""
    message = (
        f"A plan has at most {MAX_ENTRIES} entries, and 4 GiB of keys. Send the rest as another plan of the series."
    )
    return S3Error("EntityTooLarge", message, MaxSizeAllowed=str(MAX_ENTRIES))


def _error(line: int, reason: str) -> S3Error:
    return S3Error("InvalidArgument", f"Line {line}: {reason}.", Line=str(line))


def _common_prefix(low: str, high: str) -> str:
    length = next((nth for nth, (left, right) in enumerate(zip(low, high, strict=False)) if left != right), len(low))
    return low[:length]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 18
