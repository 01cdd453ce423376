"""The allowance of a plan: the keys that its principal may read, and the horizon, by the grants and rules in force.

Made anew at each step of the runner, so that a reload counts from the next step on.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from forebay.core.names import ObjectName
from forebay.jobs.plans.plan_window import WindowEntry
from forebay.origin.origin_identity import OriginIdentity

_AT_ONCE: Final = 64
"""Entries that one turn of the loop checks, at some microseconds each."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """See the module."""

    permits: Callable[[ObjectName], bool]
    """Whether its principal may read an object."""
    identity: OriginIdentity | None
    """The identity whose credential its requests to the origin carry."""
    horizon: Callable[[ObjectName], int]
    """The bytes that this plan may have ahead, by an object's rule and the shares of other plans."""
    data_set: Callable[[ObjectName], str]
    """The data set of an object."""

    async def forbidden(self, bucket: str, entries: Sequence[WindowEntry]) -> list[WindowEntry]:
        """Returns those of some entries that may not be read (any more)."""
        found = []
        for number, entry in enumerate(entries, 1):
            if not self.permits(ObjectName(bucket, entry.key)):
                found.append(entry)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        return found
