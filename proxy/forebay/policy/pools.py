"""Pools: the populations that share a tier, and which of them gives way when it is full.

A rule that sets `eviction` or `quota` makes a pool of its objects. All other objects are one population together,
`None` where a pool is named, in LRU order. While a tier has space everybody takes it. When it is full,

    a pool beyond its quota      gives way to everybody
    an idle population           gives way next: nobody has read in it for IDLE_SECONDS
    the largest population       gives way to those that are smaller by a quarter at least

so each population that can fill an equal share of the tier has it, within a quarter, and what one leaves the others may
use. The quarter keeps two equally hungry populations from evicting each other in turns.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from forebay.settings.rule_settings import Eviction

IDLE_SECONDS: Final = 3600.0
"""A population is idle after so many seconds without a read: an epoch takes less, or nobody reads the set any more."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The objects whose space the same rule bounds."""

    name: str
    """The path of the rule."""
    eviction: Eviction
    quota: int | None
    """Bytes of a tier; None: no bound of its own."""


class Population(Protocol):
    """Objects that share a tier with others: a pool, or all objects without one."""

    @property
    def used(self) -> int:
        """Bytes that can give way."""
        ...

    @property
    def last_read(self) -> float:
        """The time of the last read in it, in seconds of the caller's clock."""
        ...

    @property
    def admits_all(self) -> bool:
        """Whether it admits every block that is read (LRU), so that it grows at the cost of all others unless it is
        bounded."""
        ...


P = TypeVar("P", bound=Population)


def giving_way(populations: Iterable[P], now: float) -> P | None:
    """Returns the population that gives way when the tier is full; None if none can."""
    most: P | None = None
    for population in populations:
        if population.used > 0 and (most is None or _rank(population, now) > _rank(most, now)):
            most = population
    return most


def may_take(wanting: Population, giving: Population, now: float) -> bool:
    """Returns whether `wanting` may grow at the cost of `giving`, the population that gives way."""
    if wanting is giving:
        return False
    return is_idle(giving, now) or 4 * wanting.used < 3 * giving.used


def is_idle(population: Population, now: float) -> bool:
    """Returns whether there was no read in a population for a while."""
    return now - population.last_read > IDLE_SECONDS


def _rank(population: Population, now: float) -> tuple[float, int]:
    """Orders populations by how soon they give way."""
    idle = max(0.0, now - population.last_read - IDLE_SECONDS)
    # What admits everything gives way to an epoch pool while it has three quarters of its size.
    return idle, 4 * population.used if population.admits_all else 3 * population.used
