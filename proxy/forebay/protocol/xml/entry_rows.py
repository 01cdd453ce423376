"""Entries of a listing, written once: pages are slices of them.

    <Contents><Key>a%20b</Key><Size>1</Size></Contents><Contents>...      keys as `encoding-type=url` writes them
    |<------------ a row ------------------>|                            no owners: a number of each, beside the rows

A page of a thousand entries is one slice of bytes then. The other forms are made from the rows when they are requested:
keys as XML text, where that differs, and owners, at the end of each row.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from forebay.protocol.xml.listed_page import KeyEncoding, split_owner
from forebay.protocol.xml.xml_tree import escape_text

NO_OWNER: Final = 255
_START: Final = b"<Contents><Key>"
_KEY_END: Final = b"</Key>"
_END: Final = b"</Contents>"


class EntryRows:
    """Rows of neighbouring entries, in the order of their keys."""

    __slots__ = ("bounds", "content", "is_plain", "keys", "owners")

    def __init__(
        self, keys: Sequence[str], content: bytes | memoryview, bounds: Sequence[int], owners: bytes, *, is_plain: bool
    ) -> None:
        """`content`: all rows; `bounds`: the position of each, and of the end of the last; `owners`: the number of each
        one's owner, or NO_OWNER; `is_plain`: no key needs percent-encoding. Raises ValueError if they don't fit each
        other."""
        if not len(keys) == len(bounds) - 1 == len(owners) or bounds[-1] != len(content):
            raise ValueError("rows that don't fit their table")
        self.keys = keys
        self.content = content
        self.bounds = bounds
        self.owners = owners
        self.is_plain = is_plain

    @staticmethod
    def written(keys: Sequence[str], facts: Sequence[str], encoding: KeyEncoding) -> "EntryRows":
        """The rows of `keys`; `facts`: the XML of each entry after the key, with a mark in place of its Owner."""
        is_plain = encoding.leaves("".join(keys))
        encoded = keys if is_plain else [encoding.encode(key) for key in keys]
        parts = [split_owner(each) for each in facts]
        rows = [
            f"<Contents><Key>{key}</Key>{fact}</Contents>".encode()
            for key, (fact, _) in zip(encoded, parts, strict=True)
        ]
        owners = bytes(NO_OWNER if owner is None else owner for _, owner in parts)
        bounds = list(accumulate(map(len, rows), initial=0))
        return EntryRows(keys, b"".join(rows), bounds, owners, is_plain=is_plain)

    def find(self, key: str) -> int | None:
        """The position of a key; None: the rows lack it."""
        position = bisect_left(self.keys, key)
        return position if position < len(self.keys) and self.keys[position] == key else None

    def facts(self, position: int) -> str:
        """The XML of an entry after its key, without its Owner."""
        return self._row(position).partition(_KEY_END)[2].decode()

    def contents(self, first: int, stop: int, owners: Sequence[str] | None, *, is_encoded: bool) -> bytes | memoryview:
        """The rows from `first` to `stop`, as a page has them. `owners`: the Owner elements by number; None: not shown.
        `is_encoded`: with percent-encoded keys."""
        used = set(self.owners[first:stop]) if owners is not None else {NO_OWNER}
        if len(used) > 1 or not (is_encoded or self.is_plain):
            return b"".join(self._rewritten(first, stop, owners, is_encoded=is_encoded))
        rows = self.content[self.bounds[first] : self.bounds[stop]]
        if owners is None or not used or used == {NO_OWNER}:
            return rows
        return bytes(rows).replace(_END, owners[used.pop()].encode() + _END)

    def _rewritten(self, first: int, stop: int, owners: Sequence[str] | None, *, is_encoded: bool) -> Iterator[bytes]:
        for position in range(first, stop):
            row = self._row(position)
            if not is_encoded:
                row = _START + escape_text(self.keys[position]).encode() + row[row.index(_KEY_END) :]
            owner = self.owners[position]
            yield row + (owners[owner].encode() if owners is not None and owner != NO_OWNER else b"") + _END

    def _row(self, position: int) -> bytes:
        """A row without its end."""
        return bytes(self.content[self.bounds[position] : self.bounds[position + 1] - len(_END)])


class EntryRun(NamedTuple):
    """Entries of a page that follow each other in rows."""

    rows: EntryRows
    first: int
    stop: int

    @property
    def keys(self) -> Sequence[str]:
        """Their keys."""
        return self.rows.keys[self.first : self.stop]
