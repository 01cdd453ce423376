"""The requests and answers of the admin port about pending writes, beside forebay.core.pending_write, as in
admin_schema."""

from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

from forebay.core.pending_write import PENDING_STATES, PendingWrite, StuckWrite


def check_state(value: object, name: str) -> str:
    """A state of a pending write, or nothing."""
    if value != "" and value not in PENDING_STATES:
        raise ValueError(f"{name!r} must be one of {', '.join(PENDING_STATES)}.")
    return str(value)


def check_wait(value: object, name: str) -> float:
    """Seconds that one request may wait."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= MAX_WAIT:
        raise ValueError(f"{name!r} must be a number of seconds from 0 to {MAX_WAIT}.")
    return float(value)


MAX_WAIT: Final = 30
"""Seconds of one flush; a client repeats it."""
Wait: TypeAlias = Annotated[float, check_wait]
StateName: TypeAlias = Annotated[str, check_state]

OTHER_ORIGIN: Final = "It was accepted for another origin than its bucket has now: export it, or discard it."
NOT_STUCK: Final = "It is not stuck, nor in conflict, so it is tried again, or sent, without further ado."


@dataclass(frozen=True, slots=True)
class Flushed:
    """POST /v1/flush."""

    left: int
    """The number of writes that were pending when it began, and are not at the origin."""
    before: str
    """Given to another flush, it waits for what was pending when this one began, and for nothing else."""
    held_up: int = 0
    """The number of the writes left that are stuck or in conflict, or have to come after such a write. Once all are, a
    flush does not wait."""
    stuck: tuple[StuckWrite, ...] = ()
    """The writes that they wait for, the oldest first, 10 at most."""
    found: int = 0
    """The number of writes that were not at the origin when this request came."""
    problem: str = ""
    """There is no such bucket: sent as a refusal."""


@dataclass(frozen=True, slots=True)
class PendingContent:
    """GET /v1/writes/{id}/content: a part of the object that a write makes. One with a problem is sent as a refusal."""

    offset: int
    content: str
    """1 MiB at most, in base64."""
    next: int | None
    """The `offset` of the following part; None: this is the last."""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PendingRetried:
    """POST /v1/writes/{id}/retry: a write, as it was before. One with a problem is sent as a refusal."""

    write: PendingWrite
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PendingDiscarded:
    """DELETE /v1/writes/{id}: a write, as it was before. One with a problem is sent as a refusal."""

    write: PendingWrite
    problem: str = ""
