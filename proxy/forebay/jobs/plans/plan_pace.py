"""The pace of a plan: the speed of its reader and the duration of its fetches, and the horizon that follows from both.

    horizon     bytes ahead of the reader: what it reads in HORIZON_SECONDS, at least LEAST_HORIZON
    in flight   entries that it reads while one is fetched, and somewhat more; many while the lead is short, as it is at
                first: what the workers of a loader read first lies in as many batches

Pure: time is an argument, in seconds.
"""

from typing import Final

HORIZON_SECONDS: Final = 30.0
"""The largest lead of a plan over its reader, at the reader's pace."""
LEAST_HORIZON: Final = 16 << 20
"""Bytes that a slow reader has ahead of it all the same."""
FIRST_IN_FLIGHT: Final = 32
"""Entries in flight while the reader is about to overtake, and at the start: for FIRST_ENTRIES entries, or FIRST_LEAD
bytes."""
MEAN_IN_FLIGHT: Final = 16
"""Entries in flight while the lead is short, and for a plan without a reader yet, which is in no hurry."""
FIRST_ENTRIES: Final = 128
"""The entries of the first batches of eight workers."""
FIRST_LEAD: Final = 128 << 20
AHEAD_OF_PACE: Final = 1.5
"""The pace of fetching over that of the reader, once the lead is not short."""
SHORT_LEAD: Final = 1.0
"""Seconds of reading below which a lead is short."""
SHORTEST_LEAD: Final = 0.25
"""Seconds of reading below which the reader is about to overtake."""
MAX_IN_FLIGHT: Final = 128
INTERVAL: Final = 0.5
"""Seconds between two measurements of the reader's pace."""
_FIRST_EXPECTED: Final = 1 << 20
_SMOOTHING: Final = 0.2


class PlanPace:
    """The pace of one plan, measured from `now` on."""

    def __init__(self, now: float) -> None:
        self.last_read = now
        """The time of the latest read of an entry, or of the beginning of the plan."""
        self._measured_at = now
        self._entries = self._size = 0
        """Entries and bytes read since then."""
        self._entry_rate = self._byte_rate = 0.0
        """Entries and bytes a second."""
        self._fetch_seconds = 0.1
        self._mean_size = 0.0
        """Mean bytes of an entry; 0: none was fetched yet."""

    # What happened

    def entry_read(self, size: int) -> None:
        """Counts `size` bytes of an entry that were read."""
        self._entries += 1
        self._size += size

    def measure(self, now: float) -> None:
        """Measures the reader's pace, once in INTERVAL seconds."""
        seconds = now - self._measured_at
        if seconds < INTERVAL:
            return
        share = _SMOOTHING if self._entry_rate or self._byte_rate else 1.0
        if self._entries or now - self.last_read < HORIZON_SECONDS:  # a pause of the reader is not its pace
            self._entry_rate += share * (self._entries / seconds - self._entry_rate)
            self._byte_rate += share * (self._size / seconds - self._byte_rate)
        self._measured_at, self._entries, self._size = now, 0, 0

    def entry_fetched(self, seconds: float, size: int | None) -> None:
        """Notes that a fetch took `seconds`, for an entry of `size` bytes (None: unknown)."""
        self._fetch_seconds += _SMOOTHING * (seconds - self._fetch_seconds)
        if size is not None:
            self.entry_found(size)

    def entry_found(self, size: int) -> None:
        """Notes an entry of `size` bytes that was in the cache, so that no fetch was timed."""
        self._mean_size += (size - self._mean_size) * (_SMOOTHING if self._mean_size else 1.0)

    # What follows

    @property
    def mean_size(self) -> int:
        """Mean bytes of the entries fetched so far; 0: there is none."""
        return int(self._mean_size)

    def expected_size(self, horizon: int) -> int:
        """Returns the bytes that the next entry counts until they are known."""
        return self.mean_size or min(_FIRST_EXPECTED, horizon)

    def horizon(self, allowed: int) -> int:
        """Returns the bytes that may be ahead of the reader, of `allowed`."""
        if not self._byte_rate:
            return allowed
        return min(allowed, max(LEAST_HORIZON, int(self._byte_rate * HORIZON_SECONDS)))

    def most_in_flight(self, lead: int, entries: int) -> int:
        """Returns how many entries may be fetched at once with a lead of `lead` bytes, of `entries`. With a long lead,
        more would only take the processor and the link from the reader."""
        needed = int(AHEAD_OF_PACE * self._entry_rate * self._fetch_seconds) + 2
        if not self._entry_rate:
            return FIRST_IN_FLIGHT if entries < FIRST_ENTRIES and lead < FIRST_LEAD else MEAN_IN_FLIGHT
        if lead < self._byte_rate * SHORTEST_LEAD:
            needed = max(needed, FIRST_IN_FLIGHT)
        elif lead < self._byte_rate * SHORT_LEAD:
            needed = max(needed, MEAN_IN_FLIGHT)
        return min(MAX_IN_FLIGHT, needed)

    def seconds_of(self, lead: int) -> float | None:
        """Returns the seconds that the reader takes for `lead` bytes; None: its pace is not known."""
        return lead / self._byte_rate if self._byte_rate else None
