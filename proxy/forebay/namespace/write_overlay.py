"""The overlay of a snapshot: keys that were written through Forebay since its listing began.

    write ──> fence ──> mark: unknown ──> learn, what the origin said after the mark: known ──> next write: unknown

A snapshot says nothing of a key in the overlay. What the key is now is learnt from the origin when a listing needs it
(namespace.entry_lookup), and is known until the next write to it. So the overlay is raised where the write raises its
fence (write.invalidation), in every worker, before the client hears of the write.
"""

from bisect import bisect_left, bisect_right, insort
from typing import Final, NamedTuple

from forebay.core.fences import Tick

MAX_WRITTEN: Final = 100_000
"""Keys of an overlay, beyond which the listing begins anew."""


class KnownEntry(NamedTuple):
    """What the origin has said of a key: its entry, or None where there is no object."""

    facts: str | None
    since: Tick
    """When it was requested."""


class WriteOverlay:
    """The keys of one snapshot that were written since. Bounded by whoever marks them (`is_full`)."""

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
        """What was known of `key` holds no longer."""
        if key not in self._known:
            insort(self._keys, key)
        self._known[key] = None

    def learn(self, key: str, entry: KnownEntry) -> None:
        """Stores what the origin said of a key. The caller has checked that no write has come since."""
        if key in self._known:
            self._known[key] = entry

    def known(self, key: str) -> KnownEntry | None:
        """What the origin has said of a key of the overlay; None: nothing since the last write."""
        return self._known.get(key)

    def is_written(self, key: str) -> bool:
        """Whether `key` was written since the listing began."""
        return key in self._known

    def between(self, low: str, high: str | None, *, inclusive: bool) -> list[str]:
        """The keys from `low` on, itself only if `inclusive`, before or at `high`; None: to the end."""
        first = (bisect_left if inclusive else bisect_right)(self._keys, low)
        return self._keys[first : len(self._keys) if high is None else bisect_right(self._keys, high)]
