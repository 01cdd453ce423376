"""Prefetch requests: bytes to fetch ahead of their reader, the outcomes, and the interface of a prefetcher."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, Protocol, TypeAlias

from forebay.core.names import ObjectName
from forebay.origin.origin_identity import OriginIdentity

PrefetchStatus: TypeAlias = Literal["fetched", "full", "refused", "failed", "unavailable"]
"""Refused: no rule accelerates the object, or the origin refused the read. Unavailable: a later attempt may succeed, as
the origin is overloaded or down."""


class PrefetchRequest(NamedTuple):
    """Bytes of an object that are about to be read."""

    name: ObjectName
    start: int
    stop: int | None
    """None: to the end of the object."""
    group: str
    """The plan or job that it belongs to: groups share the background turns."""
    identity: OriginIdentity | None = None
    expected: int = 0
    """Bytes that there must be room for before the object's size is known; 0: a block."""
    checksums: bool = False
    """Whether the reader of the whole object is known to want its checksums."""


class PrefetchOutcome(NamedTuple):
    """The outcome of a PrefetchRequest."""

    status: PrefetchStatus
    size: int = 0
    """Bytes of the object."""
    stop: int = 0
    """The end of the bytes that are here now; no more than was requested."""
    claimed: int = 0
    """Bytes that wait for their reader."""
    ticket: int = 0
    """The ticket to pass to `finish` or `drop`, once; 0 if nothing is claimed."""
    problem: str = ""
    fetched_blocks: int = 0
    """Blocks that came from the origin for it; the others were here."""
    fetched_bytes: int = 0
    """Bytes of these blocks."""


OnOutcome: TypeAlias = Callable[[PrefetchOutcome], None]


class PrefetchService(Protocol):
    """Carries out prefetch requests: the Prefetcher of a worker, or jobs.prefetch.node_prefetcher for all of them."""

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        """Fetches a piece of an object."""
        ...

    def finish(self, tickets: Sequence[int], *, late: bool = False) -> None:
        """The bytes of these tickets were read."""

    def drop(self, tickets: Sequence[int]) -> None:
        """The bytes of these tickets won't be read."""


class PrefetchLookup(PrefetchService, Protocol):
    """A prefetch service that finds bytes which are cached already, without a wait."""

    def find_nowait(self, request: PrefetchRequest) -> PrefetchOutcome | None:
        """The outcome that `fetch` would return, if all bytes are cached; None: call `fetch`."""
        ...

    def begin(self, request: PrefetchRequest, on_end: OnOutcome) -> bool:
        """Begins to fetch without a task what `fetch` would, and calls `on_end` once, with the outcome. False: call
        `fetch`."""
        ...
