"""The head of a response as it was received: its fields are parsed at the first access."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any


@lru_cache(maxsize=256)
def _line_start(name: str) -> bytes:
    return f"\n{name}:".encode()


class ReceivedHead(Mapping[str, str]):
    """The fields of a head, names in lower case; the values of a repeated one joined by commas."""

    __slots__ = ("_fields", "_lowered", "raw")

    def __init__(self, raw: bytes) -> None:
        """`raw`: from the status line to the empty line."""
        self.raw = raw
        self._fields: dict[str, str] | None = None
        self._lowered: bytes | None = None

    @property
    def status(self) -> int:
        """The HTTP status. Raises ValueError for what is no response."""
        if not self.raw.startswith(b"HTTP/1.1 "):
            raise ValueError("no response of HTTP")
        return int(self.raw[9:12])

    @property
    def has_checksum(self) -> bool:
        """Whether the name of a field may be that of a checksum."""
        if self._lowered is None:
            self._lowered = self.raw.lower()
        # Not `in`, which takes bytes for a number first, by an exception.
        return self._lowered.find(b"checksum") >= 0 or self._lowered.find(b"-hash-") >= 0

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field, or `default`. Most that are looked for are absent, and cost no parsing."""
        if self._fields is None:
            if self._lowered is None:
                self._lowered = self.raw.lower()
            if self._lowered.find(_line_start(name)) < 0:
                return default
        return self._parsed().get(name, default)

    def __getitem__(self, name: str) -> str:
        return self._parsed()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed())

    def __len__(self) -> int:
        return len(self._parsed())

    def _parsed(self) -> dict[str, str]:
        if self._fields is None:
            fields: dict[str, str] = {}
            for line in self.raw.decode("latin-1").split("\r\n")[1:]:
                name, colon, value = line.partition(":")
                if colon:
                    name, value = name.strip().lower(), value.strip()
                    fields[name] = f"{fields[name]}, {value}" if name in fields else value
            self._fields = fields
        return self._fields
