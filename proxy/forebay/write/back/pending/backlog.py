"""The backlog in numbers: how much is acknowledged and not yet at the origin, and how much of it waits for a person.

They are kept as writes come and go: a backlog may be a million writes long, and is asked for at every scrape.
"""

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from forebay.core.names import ObjectName
from forebay.write.back.pending.accepted_write import AcceptedWrite


class Backlog(NamedTuple):
    """The writes of the journal."""

    writes: int
    objects: int
    size: int
    """Bytes of the objects that the writes make."""
    age: float
    """The age of the oldest write, in seconds."""
    stuck: int
    """The number of writes that the origin has refused, as far as this worker carries them out."""
    conflicts: int
    """The number of writes of objects that somebody else has written meanwhile; likewise."""


class BacklogSums:
    """The sums of the writes that are known and not settled."""

    def __init__(self) -> None:
        self.writes = 0
        self.size = 0
        self._by_object: Counter[ObjectName] = Counter()

    @property
    def objects(self) -> int:
        """The number of objects that they are of."""
        return len(self._by_object)

    def add(self, write: AcceptedWrite) -> None:
        """A write is known."""
        self.writes += 1
        self.size += write.size
        self._by_object[write.name] += 1

    def remove(self, write: AcceptedWrite) -> None:
        """A write is settled."""
        self.writes -= 1
        self.size -= write.size
        self._by_object[write.name] -= 1
        if not self._by_object[write.name]:
            del self._by_object[write.name]


def backlog_of(sums: BacklogSums, oldest: float, stopped: Collection[bool], now: float) -> Backlog:
    """Returns the backlog. `oldest`: when the oldest write was accepted, `now` for none, in seconds since the epoch.
    `stopped`: of each write that this worker has left to a person, whether it is a conflict."""
    conflicts = sum(stopped)
    return Backlog(sums.writes, sums.objects, sums.size, max(0.0, now - oldest), len(stopped) - conflicts, conflicts)
