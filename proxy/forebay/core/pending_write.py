"""A pending write, as the admin port, the command line and `.forebay/writes/` show it.

    waiting ──> sending ──┬──> at the origin, and shown no more
       ▲          │ ▲     ├──> stuck      the origin has refused it: a person retries, exports or discards it
       │          │ │     └──> conflict another writer has written the object meanwhile: likewise
       │       failing            │       the last attempt failed; the next one comes by itself
       └──────────────────────────┘

Imports nothing: the supervisor reads it too.
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

PendingState: TypeAlias = Literal["waiting", "sending", "failing", "stuck", "conflict"]
PENDING_STATES: Final[tuple[PendingState, ...]] = ("waiting", "sending", "failing", "stuck", "conflict")
LEFT_TO_A_PERSON: Final[frozenset[PendingState]] = frozenset({"stuck", "conflict"})
CONTENT_PART: Final = 1 << 20
"""Bytes of a write's content that are read at once."""


class DamagedContent(NamedTuple):
    """The bytes of a write can't be read from the journal."""

    reason: str


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """One write that was acknowledged and is not at the origin. Bytes, and seconds since the Unix epoch."""

    id: str
    """The id of the write among all of the node; the same after a restart."""
    bucket: str
    key: str
    kind: Literal["put", "delete", "complete"]
    """Complete: a multipart upload."""
    state: PendingState
    size: int
    """The size of the object."""
    etag: str
    """The ETag that was acknowledged; empty for a deletion."""
    accepted_at: float
    attempts: int
    """The number of attempts to carry the write out, since the start of this process."""
    reason: str
    """Why the last attempt failed."""
    waits_for: str
    """The id of the write that has to be at the origin first; empty: none."""
    parts: int
    """The number of parts of a multipart upload."""
    headers: tuple[tuple[str, str], ...]
    """The headers that are sent to the origin with the object."""
    is_of_other_origin: bool = False
    """Whether it was accepted for another origin than its bucket has now, so that it can't be carried out."""


@dataclass(frozen=True, slots=True)
class StuckWrite:
    """A pending write that a person has to retry, export or discard, and why."""

    id: str
    bucket: str
    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class PendingPage:
    """GET /v1/writes: a page of the pending writes, as they were accepted."""

    writes: tuple[PendingWrite, ...]
    next: str | None
    """The value of `after` for the next page; None for the last page."""
