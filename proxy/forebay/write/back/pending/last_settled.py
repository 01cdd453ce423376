"""The last settled write of each object: what was written to the journal before it comes too late.

    a worker has a record durable, and ends before another worker knows of it
    the client tries again elsewhere ──> accepted, carried out, settled
    the first record is found: carried out now, it would put the older bytes over the newer ones

The client of such a record was never answered, and its write was followed by one that everybody saw: it is settled
without being carried out. So is one of two writes at the same time whose record another worker heard of only when the
other one, written later, had arrived: it was replaced at once.
"""

from collections import OrderedDict
from typing import Final

from forebay.core.names import ObjectName
from forebay.write.back.pending.accepted_write import AcceptedWrite

MOST_OBJECTS: Final = 65_536


class LastSettled:
    """The objects of the last settled writes, and when the last one of each was written, on the node's clock."""

    def __init__(self) -> None:
        self._written: OrderedDict[ObjectName, int] = OrderedDict()

    def add(self, name: ObjectName, written: int) -> None:
        """A write of the object is settled."""
        self._written[name] = max(written, self._written.get(name, 0))
        self._written.move_to_end(name)
        if len(self._written) > MOST_OBJECTS:
            self._written.popitem(last=False)

    def supersedes(self, write: AcceptedWrite) -> bool:
        """Whether a write of the same object that was written later is settled."""
        return write.interval.written < self._written.get(write.name, 0)
