"""Fences: what keeps a fetch that began before a write from landing after it.

Every write through Forebay raises a fence, before it is sent to the origin and again before it is acknowledged. Whoever
asks the origin for the facts of an object notes the tick at which it asked; what it learnt may be stored only if no
fence was raised since. Blocks need no fence: they are pinned to their version (If-Match) and reachable only through a
head.

Memory is bounded without giving up the promise: when a fence is forgotten, everything that was asked before that fence
was raised is refused, whatever object it was about.

A doubt is a write whose answer was lost: the origin may still carry it out, so for a while the object is revalidated on
every read, whatever its rule says, and once more after that.
"""

from collections import OrderedDict
from typing import Final, NewType

from forebay.core.names import ObjectName

Tick = NewType("Tick", int)

_REMEMBERED: Final = 65_536


class Fences:
    """When each object, and each bucket as a whole, was last written to. Ticks count fences, not seconds."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._tick = 0
        self._floor = 0
        self._raised: OrderedDict[ObjectName | str, int] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Fences tick={self._tick} raised={len(self._raised)} floor={self._floor}>"

    def now(self) -> Tick:
        """The tick to note before asking the origin."""
        return Tick(self._tick)

    def raise_object(self, name: ObjectName) -> None:
        self._raise(name)

    def raise_bucket(self, bucket: str) -> None:
        self._raise(bucket)

    def _raise(self, what: ObjectName | str) -> None:
        self._tick += 1
        self._raised[what] = self._tick
        self._raised.move_to_end(what)
        if len(self._raised) > self._remembered:
            _, self._floor = self._raised.popitem(last=False)

    def allows(self, name: ObjectName, since: Tick) -> bool:
        """Whether facts of `name` that were asked for at `since` may be stored now."""
        return since >= self._floor and self._raised.get(name, 0) <= since and self._raised.get(name.bucket, 0) <= since


class Doubts:
    """Objects about which a write's answer was lost, each until a time (seconds since the epoch)."""

    def __init__(self, remembered: int = _REMEMBERED) -> None:
        self._remembered = remembered
        self._until: dict[ObjectName | str, float] = {}
        self._everything_until = 0.0
        self.raised = False
        """Whether there ever was one."""

    def raise_object(self, name: ObjectName, until: float) -> None:
        self._raise(name, until)

    def raise_bucket(self, bucket: str, until: float) -> None:
        self._raise(bucket, until)

    def _raise(self, what: ObjectName | str, until: float) -> None:
        self.raised = True
        if len(self._until) >= self._remembered:  # rather doubt everything than forget one
            self._everything_until = max(until, self._everything_until, *self._until.values())
            self._until.clear()
        self._until[what] = max(until, self._until.get(what, 0.0))

    def held(self, now: float) -> list[tuple[ObjectName | str | None, float]]:
        """Those that hold, each with its end; None stands for everything. For a worker that begins."""
        everything: list[tuple[ObjectName | str | None, float]] = [(None, self._everything_until)]
        return [(what, until) for what, until in [*everything, *self._until.items()] if until > now]

    def take(self, what: ObjectName | str | None, until: float) -> None:
        """Take over a doubt that another worker holds."""
        if what is None:
            self.raised = True
            self._everything_until = max(until, self._everything_until)
        else:
            self._raise(what, until)

    def holds(self, name: ObjectName, now: float) -> bool:
        """Whether `name` must be revalidated now, whatever its rule says."""
        return now < self.until(name)

    def until(self, name: ObjectName) -> float:
        """The time from which on facts of `name` are to be trusted again; what was learnt before is not, even then: it
        may have been read before the write came about. 0.0: there was no doubt."""
        if not self._until:  # the common case, on the way of every hit
            return self._everything_until
        return max(self._everything_until, self._until.get(name, 0.0), self._until.get(name.bucket, 0.0))
