"""The flights that one body follows, by the number of their block.

A flight is joined if another reader had started it. Each flight that is followed is left exactly once: a flight without
a follower ends, and returns its buffer.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginError
from forebay.core.events import FlightJoined
from forebay.core.requester import BACKGROUND, requester
from forebay.fetch.block_source import BlockSource
from forebay.fetch.fetch_request import FetchRequest, ObjectView
from forebay.fetch.flight import Flight

FlightSource: TypeAlias = Literal["worker", "joined", "flight"]
"""joined: a flight that another reader had started. worker: another worker of the node, which had the bytes."""


class FollowedFlights:
    """The flights that a body of the version of `view` follows."""

    def __init__(self, source: BlockSource, view: ObjectView) -> None:
        self._source = source
        self._view = view
        self._flights: dict[int, Flight] = {}
        self._joined: set[int] = set()

    def __repr__(self) -> str:
        return f"<FollowedFlights {list(self._flights)}>"

    def __contains__(self, number: int) -> bool:
        """Returns whether the flight of a block is followed."""
        return number in self._flights

    def get(self, number: int) -> Flight | None:
        """Returns the flight of a block, or None: it is not followed."""
        return self._flights.get(number)

    def items(self) -> Sequence[tuple[int, Flight]]:
        """Returns the blocks' numbers and flights, which stay the same while flights are left."""
        return tuple(self._flights.items())

    def is_joined(self, number: int) -> bool:
        """Returns whether another reader had started the flight of a block."""
        return number in self._joined

    def piece(self, number: int, within: Span) -> tuple[FlightSource, Buffer]:
        """Returns those of the bytes `within` a block that have arrived, and where they come from."""
        flight = self._flights[number]
        source = "joined" if number in self._joined else flight.source
        return source, flight.buffer[within.start : min(flight.filled, within.stop)]

    def follow(self, number: int, flight: Flight, *, joined: bool = False) -> bool:
        """Follows a flight. Returns False if the block's is followed already: it was planned twice, as memory was short
        the first time."""
        if number in self._flights:
            return False
        flight.follow()
        if not flight.is_demanded and requester.get() != BACKGROUND:
            flight.demand()
        self._flights[number] = flight
        if joined:
            self._joined.add(number)
        return True

    def join(self, number: int) -> None:
        """Follows the flight that another reader has started of a block, if there is one."""
        flight = self._source.fetcher.registry.find(self._view.block(number))
        if flight is not None and self.follow(number, flight, joined=True):
            self._source.observe(FlightJoined())

    def start(self, fetch: FetchRequest) -> None:
        """Starts a fetch and follows its flights. Their memory was acquired."""
        for number, flight in self._source.fetcher.start(fetch).items():
            self.follow(number, flight)

    async def wait_filled(self, number: int, needed: int) -> bool:
        """Waits for the first `needed` bytes of a block. Returns False if they never arrive and the failure is not this
        reader's: the flight was requested with another identity. Otherwise raises the failure."""
        flight = self._flights[number]
        try:
            await flight.wait_filled(needed)
        except OriginError:
            if flight.identity == self._view.identity:
                raise
            return False
        return True

    def leave(self, number: int) -> None:
        """Leaves the flight of a block."""
        self._joined.discard(number)
        self._flights.pop(number).leave()

    def leave_all(self) -> bool:
        """Leaves every flight. Returns whether there was one."""
        flights = self.items()
        for number, _flight in flights:
            self.leave(number)
        return bool(flights)
