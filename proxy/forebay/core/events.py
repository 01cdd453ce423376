"""Events: facts in the past tense that lower rooms report to the metrics and the log.

A part is given an `Observe` and calls it with each event. Observers return at once and never raise. The events of every
hit or miss are named tuples, which are made in a third of the time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName
from forebay.core.request_record import CacheStatus

CredentialState: TypeAlias = Literal["unknown", "accepted", "refused", "missing", "anonymous"]
"""Unknown: no probe was answered yet. Missing: there should be a key and is none. Anonymous: requests are unsigned."""

DEFAULT_ORIGIN: Final = "default"
"""The name of `[origin]`, in events, the log, the stats and the metrics."""


def origin_suffix(origin: str) -> str:
    """Returns the end of a sentence about an origin: its name in parentheses; nothing for `[origin]`."""
    return "" if origin == DEFAULT_ORIGIN else f" (origin {origin})"


TierName: TypeAlias = Literal["memory", "ssd"]


class BlocksAdmitted(NamedTuple):
    """A tier stored so many blocks, of `size` bytes together."""

    tier: TierName
    blocks: int
    size: int


class BlocksEvicted(NamedTuple):
    """Blocks left a tier to make room (reason "capacity") or because it shrank ("resize")."""

    tier: TierName
    blocks: int
    size: int
    reason: Literal["capacity", "resize"]


@dataclass(frozen=True, slots=True)
class AdmissionThrottled:
    """A tier was too busy to admit a block. The block is served, and fetched again at its next read."""

    tier: TierName
    size: int


@dataclass(frozen=True, slots=True)
class AdmissionRefused:
    """A block is not part of the stable share that a tier keeps. It is served, and fetched again at its next read."""

    tier: TierName
    size: int


@dataclass(frozen=True, slots=True)
class CorruptionFound:
    """A record did not match its index entry or checksum. It was dropped; the read was a miss."""

    tier: TierName
    reason: str


@dataclass(frozen=True, slots=True)
class TierFailed:
    """An operation of a tier failed: disk full, EIO, read-only. Reads go on from the origin."""

    tier: TierName
    operation: str
    reason: str


class OriginAnswered(NamedTuple):
    """The origin responded to one attempt of a request."""

    operation: str
    status: int
    seconds: float
    """Seconds until the head of the response."""
    origin: str = DEFAULT_ORIGIN


@dataclass(frozen=True, slots=True)
class OriginFailed:
    """One attempt got no response, or a broken one."""

    operation: str
    reason: str
    origin: str = DEFAULT_ORIGIN


@dataclass(frozen=True, slots=True)
class HeadContradicted:
    """A response gave a known version another size. Its head was forgotten, and the origin gets another request."""


@dataclass(frozen=True, slots=True)
class OriginRefusedCredential:
    """The origin refused the credential that a request was signed with. `code`: its error code."""

    code: str


@dataclass(frozen=True, slots=True)
class OriginRetried:
    """A request to the origin is attempted again."""

    operation: str
    origin: str = DEFAULT_ORIGIN


@dataclass(frozen=True, slots=True)
class HedgeEnded:
    """A late read was sent to the origin a second time: its response was used, or the first one's, or it failed."""

    result: Literal["won", "lost", "failed"]


@dataclass(frozen=True, slots=True)
class SlowResponse:
    """A response of the origin was slower than the floor: it was replaced by another one, kept for lack of a better
    one, or ended because no reader followed its blocks."""

    action: Literal["replaced", "kept", "ended"]


class OriginBytesRead(NamedTuple):
    """Object bytes that came from the origin for a flight."""

    size: int
    rule: str


class BytesWarmed(NamedTuple):
    """Bytes of OriginBytesRead that were fetched for a warm-up job."""

    size: int
    rule: str


class BlockFetched(NamedTuple):
    """A block came whole, for one reader alone: as FlightStarted and OriginBytesRead, in one."""

    size: int
    """Bytes from the origin; none where the worker that owns the object has counted them."""
    rule: str


class FlightStarted(NamedTuple):
    """A fetch started flights for so many blocks."""

    blocks: int


@dataclass(frozen=True, slots=True)
class FlightJoined:
    """A reader joined a flight that was in progress."""


@dataclass(frozen=True, slots=True)
class OwnerMissed:
    """The owner of an object was gone or hung; the request went to the origin."""


@dataclass(frozen=True, slots=True)
class ListingAnswered:
    """A listing that the rules let be answered here was answered: `hit-ssd` from a snapshot, `partial` where written
    keys were looked up for it, `miss` while the namespace was being listed; or it was passed on to the origin."""

    source: Literal["hit-memory", "hit-ssd", "hit-worker", "partial", "miss", "revalidated", "bypass", "passed_on"]


@dataclass(frozen=True, slots=True)
class SnapshotEnded:
    """A namespace was listed as a whole, or could not be, or its snapshot was found damaged."""

    result: Literal["complete", "failed", "damaged"]


@dataclass(frozen=True, slots=True)
class HeadsCompared:
    """A new snapshot differed from the one before: so many cached heads of replaced or deleted objects were dropped."""

    dropped: int


@dataclass(frozen=True, slots=True)
class PacksRefreshed:
    """The packs of a rule were refreshed: their indexes were read, and the objects beside them listed."""

    result: Literal["complete", "failed"]


@dataclass(frozen=True, slots=True)
class HeadVouched:
    """An entry of a listing confirmed a stale head: no request was sent for it."""


class ReaderKey(NamedTuple):
    """The reader whose reads go together in a recording."""

    bucket: str
    track: str
    """The data set, as its rule names it."""
    principal: str


class RecordedRead(NamedTuple):
    """One read of a recording."""

    key: str
    start: int
    length: int
    """Bytes. Of a whole object: its size when it was read."""
    is_whole: bool


class ObjectRead(NamedTuple):
    """A plain read (a GET of an object's current version) was answered from the cache with the bytes `span`.

    Both lanes note one in the read stream (core.read_stream) for each such response, when its head is written; the
    client may still break off. HEAD requests and responses without bytes (304, an empty object) emit nothing, nor do
    reads that are bypassed to the origin. Hits of a whole object in memory are noted by a number (core.read_log).
    """

    name: ObjectName
    span: Span
    size: int
    """Bytes of the object."""
    principal: str
    rule: str
    """The name of the rule that the reader came under, as in the metrics."""
    cache: CacheStatus
    cached: float
    """The share of its blocks that were in a tier of this worker or another one: between 0 and 1 for `partial`."""
    track: str = ""
    """The data set as recordings know it; empty: the rule neither records nor follows."""


class BatchEntriesAnswered(NamedTuple):
    """Entries of one batch were answered with the same rule, cache status and HTTP status."""

    rule: str
    cache: CacheStatus | None
    """None: the entry was refused before its look-up in the cache."""
    status: int
    entries: int
    sent: Mapping[str, int]
    """Bytes by source."""


Event: TypeAlias = (
    BlocksAdmitted
    | BlocksEvicted
    | AdmissionThrottled
    | AdmissionRefused
    | CorruptionFound
    | TierFailed
    | OriginAnswered
    | OriginFailed
    | HeadContradicted
    | OriginRefusedCredential
    | OriginRetried
    | HedgeEnded
    | SlowResponse
    | OriginBytesRead
    | BytesWarmed
    | FlightStarted
    | BlockFetched
    | FlightJoined
    | OwnerMissed
    | ListingAnswered
    | SnapshotEnded
    | HeadsCompared
    | HeadVouched
    | PacksRefreshed
    | BatchEntriesAnswered
)

Observe: TypeAlias = Callable[[Event], None]


def unobserved(_event: Event) -> None:
    """An observer that ignores every event."""
