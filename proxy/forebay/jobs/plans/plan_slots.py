"""The slots of a node's plans: in equal shares to the access keys that want them.

A key may have any number of free slots. If all are taken, a key with fewer of them gets one of the key that has the
most, as long as it has no more than that one afterwards. The plan that is needed last gives way: the rest of a
recording, then a plan that is queued, one that is not read, one that runs; of several the last.

Pure.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from forebay.core.plan_progress import PlanState

_FIRST_TO_GO: Final[tuple[PlanState, ...]] = ("queued", "idle", "running")


class PlanSlot(NamedTuple):
    """A plan that has a slot."""

    plan: str
    """The id of the plan."""
    principal: str
    state: PlanState
    is_followed: bool
    """Whether it is the rest of a recording."""


def plan_to_displace(slots: Sequence[PlanSlot], principal: str) -> str | None:
    """The plan that gives its slot to one of `principal`, where all slots are taken; None: none does. `slots`: in
    the order in which they were taken."""
    shares = Counter(slot.principal for slot in slots)
    (largest, size), *_ = shares.most_common(1) or [("", 0)]
    if size < shares[principal] + 2:
        return None

    def order(slot: PlanSlot) -> tuple[bool, int]:
        return (not slot.is_followed, _FIRST_TO_GO.index(slot.state) if slot.state in _FIRST_TO_GO else 0)

    return min((slot for slot in reversed(slots) if slot.principal == largest), key=order).plan
