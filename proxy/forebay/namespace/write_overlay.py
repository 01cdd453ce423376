"""The overlay of a snapshot: the keys that were written through Forebay since its listing began.

    write ──> fence ──> mark: unknown ──> learn the origin's entry: known ──> next write: unknown

A snapshot does not answer for a key in its overlay. The current entry of the key is looked up at the origin when a
listing needs it (namespace.entry_lookup), and is kept until the next write to the key. A key is marked where the write
raises its fence (write.invalidation), in every worker, before the client gets the response to the write.
"""

from bisect import bisect_left, bisect_right, insort
from typing import Final, NamedTuple

from forebay.core.fences import Tick

MAX_WRITTEN: Final = 100_000
"""Keys of an overlay, beyond which the listing begins anew."""


class KnownEntry(NamedTuple):
    """The origin's entry of a key; None: there is no object."""

    facts: str | None
    since: Tick
    """The tick at which the entry was requested."""


class WriteOverlay:
    """The keys of one snapshot that were written since. The caller of `mark` bounds their number by `is_full`."""

    def __init__(self) -> None:
        self._keys: list[str] = []
        self._known: dict[str, KnownEntry | None] = {}

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def is_full(self) -> bool:
        """Whether too many keys were written."""
        return len(self._keys) > MAX_WRITTEN

    def mark(self, key: str) -> None:
        """Adds `key`, without an entry; drops the entry that it had."""
        if key not in self._known:
            insort(self._keys, key)
        self._known[key] = None

    def learn(self, key: str, entry: KnownEntry) -> None:
        """Stores the origin's entry of a key. The caller has checked that no write came after its request."""
        if key in self._known:
            self._known[key] = entry

    def known(self, key: str) -> KnownEntry | None:
        """Returns the origin's entry of a key of the overlay; None: it was not looked up since the last write."""
        return self._known.get(key)

    def is_written(self, key: str) -> bool:
        """Whether `key` was written since the listing began."""
        return key in self._known

    def between(self, low: str, high: str | None, *, inclusive: bool) -> list[str]:
        """The keys from `low` on, itself only if `inclusive`, before or at `high`; None: to the end."""
        first = (bisect_left if inclusive else bisect_right)(self._keys, low)
        return self._keys[first : len(self._keys) if high is None else bisect_right(self._keys, high)]
