"""Throughput: rates between two readings of counters, and the speed of a job. Pure: times are arguments."""

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from forebay_client.admin_client import JsonObject

WINDOW = 30.0
"""Seconds over which a job's speed is averaged: long enough to be steady, short enough to follow a change."""


class Rates(NamedTuple):
    """Events and bytes per second, between two responses of /v1/stats."""

    requests: float
    errors: float
    """Answers of 500 and above."""
    sent: float
    """Bytes to clients."""
    fetched: float
    """Bytes from the origin."""
    hit_ratio: float | None
    """Of the bytes read in between; None when none were."""


def rates_between(before: JsonObject, after: JsonObject, seconds: float) -> Rates | None:
    """The rates; None if the two can't be compared: no time has passed, or Forebay was restarted in between."""
    if seconds <= 0 or after["uptime"] < before["uptime"]:
        return None
    wanted = hit = 0
    earlier = {reads["rule"]: reads for reads in before["reads"]}
    for reads in after["reads"]:
        then = earlier.get(reads["rule"], {})
        found = sum(reads[source] - then.get(source, 0) for source in ("memory", "ssd", "joined"))
        hit += found
        wanted += found + reads["origin"] - then.get("origin", 0)
    return Rates(
        requests=(after["requests"]["total"] - before["requests"]["total"]) / seconds,
        errors=(_errors(after) - _errors(before)) / seconds,
        sent=(after["bytes_sent"] - before["bytes_sent"]) / seconds,
        fetched=(after["origin"]["bytes_read"] - before["origin"]["bytes_read"]) / seconds,
        hit_ratio=hit / wanted if wanted > 0 else None,
    )


def _errors(stats: JsonObject) -> int:
    return sum(count for status, count in stats["requests"]["by_status"].items() if int(status) >= 500)


@dataclass(slots=True)
class JobSpeed:
    """The speed of a job, from samples of it."""

    _samples: deque[tuple[float, int]] = field(default_factory=deque)

    def add_sample(self, now: float, job: JsonObject) -> None:
        """Note the job's bytes at the time `now`, in seconds."""
        self._samples.append((now, job["bytes_done"]))
        while len(self._samples) > 2 and now - self._samples[0][0] > WINDOW:
            self._samples.popleft()

    @property
    def bytes_per_second(self) -> float | None:
        """The average over WINDOW; None before the second sample."""
        if len(self._samples) < 2:
            return None
        (begun, first), (ended, last) = self._samples[0], self._samples[-1]
        return (last - first) / (ended - begun) if ended > begun else None

    def seconds_left(self, job: JsonObject) -> float | None:
        """The estimate; None while the listing goes on, or while no bytes arrive."""
        speed = self.bytes_per_second
        if not speed or not job["listing_ended"]:
            return None
        return max(0.0, float(job["bytes_listed"] - job["bytes_done"]) / speed)
