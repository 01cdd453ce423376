"""The flights that can be followed, by block: those under way, and those that have landed and are still being read.

A block is in here at most once: that is what makes it one flight a block.
"""

from collections.abc import Iterable

from forebay.core.names import BlockId
from forebay.fetch.flight import Flight


class FlightRegistry:
    """Where a reader looks before it asks the origin. Synchronous: between `find` and `add` nobody else runs."""

    def __init__(self) -> None:
        self._flights: dict[BlockId, Flight] = {}

    def __len__(self) -> int:
        return len(self._flights)

    @property
    def followers(self) -> int:
        """How many readers and jobs wait for a block on its way."""
        return sum(flight.followers for flight in self._flights.values())

    def __repr__(self) -> str:
        return f"<FlightRegistry {list(self._flights.values())!r}>"

    def find(self, block: BlockId) -> Flight | None:
        """The flight of a block, to be followed at once or not at all."""
        return self._flights.get(block)

    def add(self, flights: Iterable[Flight]) -> None:
        for flight in flights:
            if self._flights.setdefault(flight.block, flight) is not flight:
                raise RuntimeError(f"second flight for one block: {flight!r}")

    def remove(self, flight: Flight) -> None:
        """Once it has failed or is released: those who follow it keep it, nobody new finds it."""
        if self._flights.get(flight.block) is flight:
            del self._flights[flight.block]
