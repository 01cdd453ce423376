"""Fences: facts asked for before a write are never stored after it. In-doubt writes: objects to revalidate for a while.

Every write through Forebay raises a fence, before it is sent to the origin and again before it is acknowledged. A
reader notes the current tick before it asks the origin for facts of an object, and stores them only if no fence on that
object or its bucket was raised since. Blocks need no fence: they are pinned to a version (If-Match), and reachable only
through a head.

When a version is found to have been replaced by another writer, a fence is raised as well. The facts of its successor,
which have shown it, pass that fence (`supersede`).

The table is bounded: when a fence is dropped from it, facts of any object that were asked for before that fence was
raised are refused.

A write is in doubt when its response was lost: the origin may still apply it. Until its time has passed, every read of
the object is revalidated, whatever its rule says; facts learnt meanwhile are validated once more afterwards.
"""

from collections import OrderedDict
from typing import Final, NamedTuple, NewType

from forebay.core.names import ObjectName

Tick = NewType("Tick", int)


class RequestTime(NamedTuple):
    """The time at which a request was about to be sent (`request_time` of RFC 9111, 4.2.3), by both clocks."""

    tick: Tick
    """The time on the clock of the fences. Facts of the response are stored if no fence was raised since."""
    seconds: float
    """The time in seconds since the epoch: facts of the response are as old as that."""


_REMEMBERED: Final = 65_536


class Fences:
    """The tick of the last write to each object, and to each bucket as a whole. Ticks count fences, not seconds."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._tick = 0
        self._floor = 0
        self._raised: OrderedDict[ObjectName | str, int] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Fences tick={self._tick} raised={len(self._raised)} floor={self._floor}>"

    def now(self) -> Tick:
        """The current tick, to be noted before a request to the origin."""
        return Tick(self._tick)

    def raise_object(self, name: ObjectName) -> None:
        """Raises a fence on an object."""
        self._raise(name)

    def raise_bucket(self, bucket: str) -> None:
        """Raises a fence on every object of a bucket."""
        self._raise(bucket)

    def supersede(self, name: ObjectName, since: Tick | None) -> Tick | None:
        """Raises a fence on an object whose version was found replaced by one requested at `since`.

        Returns the tick at which the new version counts as requested from now on; None: an earlier fence forbids to
        store it.
        """
        allowed = since is not None and self.allows(name, since)
        self._raise(name)
        return Tick(self._tick) if allowed else None

    def _raise(self, scope: ObjectName | str) -> None:
        self._tick += 1
        self._raised[scope] = self._tick
        self._raised.move_to_end(scope)
        if len(self._raised) > self._remembered:
            _, self._floor = self._raised.popitem(last=False)

    def allows(self, name: ObjectName, since: Tick) -> bool:
        """Whether facts of `name` that were requested at tick `since` may be stored now."""
        return since >= self._floor and self._raised.get(name, 0) <= since and self._raised.get(name.bucket, 0) <= since

    def raised_since(self, since: Tick) -> frozenset[ObjectName | str] | None:
        """The objects and buckets with a fence that was raised later; None: not all of them are known any more."""
        if since < self._floor:
            return None
        found: set[ObjectName | str] = set()
        for scope, tick in reversed(self._raised.items()):
            if tick <= since:
                break
            found.add(scope)
        return frozenset(found)


class InDoubtWrites:
    """Objects and buckets with a write in doubt, each until a time in seconds since the epoch."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._until: dict[ObjectName | str, float] = {}
        self._everything_until = 0.0
        self.marked = False
        """Whether any write was ever in doubt; a hit tests this first."""

    def mark_object(self, name: ObjectName, until: float) -> None:
        """A write to an object is in doubt until then."""
        self._mark(name, until)

    def mark_bucket(self, bucket: str, until: float) -> None:
        """A write to a whole bucket is in doubt until then."""
        self._mark(bucket, until)

    def _mark(self, scope: ObjectName | str, until: float) -> None:
        self.marked = True
        if len(self._until) >= self._remembered:  # the table is full: revalidate everything rather than drop an entry
            self._everything_until = max(until, self._everything_until, *self._until.values())
            self._until.clear()
        self._until[scope] = max(until, self._until.get(scope, 0.0))

    def snapshot(self, now: float) -> list[tuple[ObjectName | str | None, float]]:
        """Scope and end of each write still in doubt, for a worker that starts. The scope None is every object."""
        everything: list[tuple[ObjectName | str | None, float]] = [(None, self._everything_until)]
        return [(scope, until) for scope, until in [*everything, *self._until.items()] if until > now]

    def merge(self, scope: ObjectName | str | None, until: float) -> None:
        """Takes over one entry of another worker's snapshot."""
        if scope is None:
            self.marked = True
            self._everything_until = max(until, self._everything_until)
        else:
            self._mark(scope, until)

    def covers(self, name: ObjectName, now: float) -> bool:
        """Whether `name` must be revalidated now, even if its rule does not demand it."""
        return now < self.until(name)

    def until(self, name: ObjectName) -> float:
        """The end of doubt about `name`, in seconds since the epoch; 0.0 if there was none.

        Facts learnt before that end stay unproven after it: they may have been read before the write was applied.
        """
        if not self._until:  # the common case, on the path of every hit
            return self._everything_until
        return max(self._everything_until, self._until.get(name, 0.0), self._until.get(name.bucket, 0.0))
