"""The progress of a plan, as GET and the admin port show it.

    queued ──> running ──┬──> done          every entry was read, or the reader has passed it
       │          │ ▲    ├──> expired       nobody has read of it for a day
       │       idle─┘    └──> revoked       the key that sent it is gone
       └──────────┴──────┬──> cancelled
                         └──> displaced     its slot was taken for a key with fewer plans

Idle: nothing was read for ten minutes, so what had been fetched ahead was given up; the next read goes on. Imports
nothing: the supervisor reads it too.
"""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

PlanState: TypeAlias = Literal["queued", "running", "idle", "done", "expired", "revoked", "cancelled", "displaced"]
LIVE_STATES: Final[tuple[PlanState, ...]] = ("queued", "running", "idle")


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """One plan. Sizes in bytes, times in seconds since the Unix epoch."""

    id: str
    """The id of the plan among all of the node."""
    bucket: str
    name: str
    principal: str
    state: PlanState
    sent_at: float
    ended_at: float | None
    entries: int
    """Keys, or ranges of keys, in the plan's order."""
    dropped: int
    """Keys that were left out because the sender may not read them."""
    position: int
    """The entry behind the furthest one that was read."""
    read: int
    """Entries that were read since the plan runs in this process."""
    late: int
    """The read entries that were in no tier when they were read."""
    given_up: int
    """Entries that the reader has left out."""
    failed: int
    """Entries that could not be fetched; a read of one goes to the origin."""
    fetched_blocks: int
    """Blocks that came from the origin for it, in this process."""
    fetched_bytes: int
    """Bytes of these blocks."""
    useless_bytes: int
    """The fetched bytes that were dropped unread."""
    lead_entries: int
    """Entries that are fetched, or being fetched, and not read."""
    lead_bytes: int
    lead_seconds: float | None
    """Seconds that the lead lasts at the reader's pace; None: nothing was read yet."""
    data_set: str
    """The data set, as rules name it, of the entry that was begun last; empty: none was yet."""
    is_removed: bool = False
    """Whether its owner has removed it: it is no object any more."""


@dataclass(frozen=True, slots=True)
class PlanList:
    """GET /v1/plans: the plans that run, and the latest that have ended."""

    plans: tuple[PlanProgress, ...]
