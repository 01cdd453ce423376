"""Facts, in the past tense: what the lower floors tell whoever keeps the metrics and the log.

A floor takes an `Observe` and calls it with what has happened; it neither knows nor cares who listens. Observers return
at once and never raise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName

TierName: TypeAlias = Literal["memory", "ssd"]


@dataclass(frozen=True, slots=True)
class BlockAdmitted:
    tier: TierName
    size: int


@dataclass(frozen=True, slots=True)
class BlocksEvicted:
    """Blocks left a tier to make room (reason "capacity") or because it shrank ("resize")."""

    tier: TierName
    count: int
    size: int
    reason: Literal["capacity", "resize"]


@dataclass(frozen=True, slots=True)
class AdmissionThrottled:
    """A tier could not keep up and let a block go. The block is served, and fetched again when asked for again."""

    tier: TierName
    size: int


@dataclass(frozen=True, slots=True)
class CorruptionFound:
    """A record was not what the index said it was. It was treated as a miss and dropped."""

    tier: TierName
    reason: str


@dataclass(frozen=True, slots=True)
class TierFailed:
    """An operation of a tier failed: disk full, EIO, read-only. Service goes on from the origin."""

    tier: TierName
    operation: str
    reason: str


@dataclass(frozen=True, slots=True)
class OriginAnswered:
    """The origin answered one request (each attempt counts)."""

    operation: str
    status: int
    seconds: float
    """To the head of the answer."""


@dataclass(frozen=True, slots=True)
class OriginFailed:
    """One attempt got no answer, or a broken one."""

    operation: str
    reason: str


@dataclass(frozen=True, slots=True)
class OriginRetried:
    operation: str


@dataclass(frozen=True, slots=True)
class OriginBytesRead:
    """Object bytes that came from the origin for a flight."""

    size: int
    rule: str


@dataclass(frozen=True, slots=True)
class BytesWarmed:
    """Of these, what was fetched for a warm-up job, and so for no reader yet."""

    size: int
    rule: str


@dataclass(frozen=True, slots=True)
class FlightStarted:
    blocks: int


@dataclass(frozen=True, slots=True)
class FlightJoined:
    """A reader found the block it wanted already in the air."""


@dataclass(frozen=True, slots=True)
class OwnerMissed:
    """The worker that owns an object was not there, or hung: the origin was asked without it."""


@dataclass(frozen=True, slots=True)
class ObjectRead:
    """A plain read (a GET of an object's current version) was answered from the cache with the bytes `span`.

    Both lanes emit one for each such response, when its head is written; the client may still break off. HEAD requests
    and responses without bytes (304, an empty object) emit nothing, nor do reads that are bypassed to the origin.
    """

    name: ObjectName
    span: Span


OnObjectRead: TypeAlias = Callable[[ObjectRead], None]
"""Returns at once and never raises. Reads are many and the listener's own, so they do not go to an `Observe`."""

Event: TypeAlias = (
    BlockAdmitted
    | BlocksEvicted
    | AdmissionThrottled
    | CorruptionFound
    | TierFailed
    | OriginAnswered
    | OriginFailed
    | OriginRetried
    | OriginBytesRead
    | BytesWarmed
    | FlightStarted
    | FlightJoined
    | OwnerMissed
)

Observe: TypeAlias = Callable[[Event], None]


def unobserved(_event: Event) -> None:
    """The observer of those who are not listening."""
