"""The backlog in numbers: how much is acknowledged and not yet at the origin, and how much of it waits for a person."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from forebay.write.back.accepted_write import AcceptedWrite
from forebay.write.back.drainer import DrainEntry


class Backlog(NamedTuple):
    """The writes of the journal."""

    writes: int
    objects: int
    size: int
    """Bytes of the objects that the writes make."""
    age: float
    """Of the oldest, in seconds."""
    stuck: int
    """How many the origin has refused, as far as this worker carries them out."""
    conflicts: int
    """How many are of objects that somebody else has written meanwhile; likewise."""


def backlog_of(writes: Sequence[AcceptedWrite], entries: Iterable[DrainEntry], now: float) -> Backlog:
    """Returns the backlog of these writes. `entries`: those that this worker carries out; `now`: seconds since the
    epoch."""
    oldest = min((write.accepted_at for write in writes), default=now)
    stopped = [entry.is_conflict for entry in entries if entry.is_stuck]
    objects, size = len({write.name for write in writes}), sum(write.size for write in writes)
    conflicts = sum(stopped)
    return Backlog(len(writes), objects, size, max(0.0, now - oldest), len(stopped) - conflicts, conflicts)
