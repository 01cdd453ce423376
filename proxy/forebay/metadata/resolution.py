"""Resolutions: the results of lookups. The version to answer with, or the origin's response in its place."""

from dataclasses import dataclass, field
from typing import TypeAlias

from forebay.core.byte_ranges import Span
from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.flight import Flight
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.reads.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.owners import LookupStatus


@dataclass(frozen=True, slots=True)
class ResolvedVersion:
    """The version to answer with."""

    head: Head
    status: LookupStatus
    flights: dict[int, Flight] = field(default_factory=dict)
    """The flights that came with the head, landed or not, by block number. They must be followed at once, so that their
    bytes are served even where no tier keeps them. Emptied when all waiters have had their turn."""
    joined: bool = False
    """Whether another reader had started the lookup."""
    stored: "ShardExtent | None" = None
    """The shard that has the bytes, for a member of a pack; `flights` are those of the shard then. None for an object
    with bytes of its own."""

    def view(self, name: ObjectName, rule: str, identity: OriginIdentity | None = None) -> ObjectView:
        """The version that the bytes are read of. `name`: of the object that was looked up."""
        stored = self.stored
        if stored is None:
            return ObjectView(name, self.head, rule, identity)
        return ObjectView(stored.name, stored.head, rule, identity)

    def located(self, span: Span) -> Span:
        """Returns the position of bytes of the object in the version that they are read of."""
        return span if self.stored is None else Span(span.start + self.stored.offset, span.stop + self.stored.offset)

    @property
    def block_size(self) -> int:
        """The block size of the version that the bytes are read of."""
        return (self.head if self.stored is None else self.stored.head).block_size

    def landed(self, located: Span) -> tuple[int, Flight] | None:
        """Returns the flight that has all of these bytes, and its number, if there is one and it has landed."""
        number = located.start // self.block_size
        flight = self.flights.get(number)
        if flight is None or not flight.has_landed or located.stop > (number + 1) * self.block_size:
            return None
        return number, flight

    def release_flights(self) -> None:
        """Gives up the flights that have landed and nobody follows. Called by the reader that led the lookup, once it
        has followed those that it wants."""
        for flight in self.flights.values():
            flight.finish()


@dataclass(frozen=True, slots=True)
class ShardExtent:
    """The position of a pack member's bytes in its shard."""

    name: ObjectName
    """The name of the shard."""
    head: Head
    offset: int


Resolution: TypeAlias = ResolvedVersion | ErrorResponse | Uncacheable
