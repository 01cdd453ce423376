"""The pin registry: the pinned prefixes of this node, as one worker sees them.

    pin ──> how much is it? the origin lists it ──> too much for the quota: refused, with the sizes
                                                ──> the file of pins (storage.pin_file) ──> the tiers of this worker
    load <── the other workers, once one of them has changed the file

A prefix that can't be listed, or takes long to list, is pinned all the same, and its blocks are counted as they come:
blocks beyond the quota are kept as if they were not pinned, and the pin says so.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from forebay.core.errors import BucketMissing, OriginError, PinRefused
from forebay.core.names import ObjectName
from forebay.core.units import round_size
from forebay.jobs.warm_up.warm_up_run import ListingEntry
from forebay.policy.pins import MAX_PINS, Pin, PinSet
from forebay.policy.pools import Pool
from forebay.policy.rules import Rules
from forebay.storage.pin_file import PinFile
from forebay.storage.tiers import Tiers

MAX_LISTED: Final = 200_000
"""Objects that are listed to know the size of a pin: some seconds."""
LISTING_TIMEOUT: Final = 15.0
"""The most seconds of such a listing. Without a complete listing, blocks of the pin are counted as they arrive."""


@dataclass(frozen=True, slots=True)
class PinState:
    """A pin, and its bytes on the SSD tier."""

    pin: Pin
    used: int
    """Bytes."""
    is_over_quota: bool


@dataclass(slots=True)
class _Listed:
    """The sums of a listing."""

    objects: int = 0
    size: int = 0
    by_pool: dict[Pool, int] = field(default_factory=dict)
    """Bytes of the objects of each pool."""
    is_complete: bool = False

    def add(self, size: int, pool: Pool | None) -> None:
        """Counts an object."""
        self.objects += 1
        self.size += size
        if pool is not None:
            self.by_pool[pool] = self.by_pool.get(pool, 0) + size


class PinRegistry:
    """The pins of a node. `list_objects`: lists a bucket under a prefix, raises OriginError. `clock`: seconds since the
    epoch. `quota`: bytes of the SSD tier that pins may take; None: the default share."""

    def __init__(
        self,
        file: PinFile,
        tiers: Tiers,
        list_objects: Callable[[str, str], AsyncGenerator[ListingEntry]],
        rules: Callable[[], Rules],
        clock: Callable[[], float],
        quota: int | None,
    ) -> None:
        self._file = file
        self._tiers = tiers
        self._list_objects = list_objects
        self._rules = rules
        self._clock = clock
        self._changing = asyncio.Lock()
        tiers.use_pins(PinSet(file.load(), quota))

    @property
    def pins(self) -> PinSet:
        """All pins."""
        return self._tiers.pins

    @property
    def quota(self) -> int:
        """Bytes of the SSD tier that pins may take; 0 without such a tier."""
        return self._tiers.ssd.pins.quota if self._tiers.ssd is not None else 0

    def states(self) -> list[PinState]:
        """Returns all pins with their bytes on the SSD tier, in the order of their paths."""
        ssd = self._tiers.ssd
        if ssd is None:
            return [PinState(pin, 0, is_over_quota=False) for pin in self.pins]
        used = ssd.pins.used_by()
        return [PinState(pin, used.get(pin, 0), ssd.pins.is_over_quota(pin)) for pin in self.pins]

    def set_quota(self, quota: int | None) -> None:
        """Changes the quota."""
        if quota != self.pins.wanted_quota:
            self._tiers.use_pins(self.pins.with_quota(quota))

    async def load(self) -> None:
        """Takes the pins from the file: another worker has changed them."""
        found = await asyncio.to_thread(self._file.load)
        self._tiers.use_pins(PinSet(found, self.pins.wanted_quota))

    async def pin(self, bucket: str, prefix: str) -> Pin:
        """Pins a prefix, in this worker and in the file. Raises PinRefused."""
        async with self._changing:
            if self._tiers.ssd is None:
                raise PinRefused("Pins are kept on the SSD tier, and there is none: set [ssd] in the configuration.")
            known = self.pins.get(bucket, prefix)
            if known is None and len(self.pins) >= MAX_PINS:
                raise PinRefused(f"There are {MAX_PINS} pins already, the most that there may be.")
            pin = Pin(bucket, prefix, known.since if known is not None else self._clock())
            found = await self._measure(pin)
            pin = replace(pin, objects=found.objects, size=found.size) if found.is_complete else pin
            pins = self.pins.with_pin(pin)
            self._check(pins, pin, found)
            await self._save(pins)
            return pin

    async def unpin(self, bucket: str, prefix: str) -> Pin | None:
        """Unpins a prefix, in this worker and in the file. Returns its pin; None: there is none. Raises PinRefused."""
        async with self._changing:
            pin = self.pins.get(bucket, prefix)
            if pin is not None:
                await self._save(self.pins.without(pin))
            return pin

    async def _save(self, pins: PinSet) -> None:
        try:
            await asyncio.to_thread(self._file.save, pins)
        except OSError as error:
            raise PinRefused(f"The pins can't be kept in {self._file.path}: {error.strerror}.") from error
        self._tiers.use_pins(pins)

    async def _measure(self, pin: Pin) -> "_Listed":
        """Lists the objects of a pin, until they exceed the quota, or the listing takes long. Raises PinRefused without
        a bucket."""
        found, rules, quota = _Listed(), self._rules(), self.quota
        listing = self._list_objects(pin.bucket, pin.prefix)
        try:
            async with asyncio.timeout(LISTING_TIMEOUT), aclosing(listing) as entries:
                async for entry in entries:
                    found.add(entry.size, rules.decide(ObjectName(pin.bucket, entry.key)).pool)
                    if found.size > quota or found.objects >= MAX_LISTED:
                        return found
        except BucketMissing:
            raise PinRefused(f"There is no bucket {pin.bucket}: nothing is pinned.") from None
        except (OriginError, TimeoutError):
            return found
        found.is_complete = True
        return found

    def _check(self, pins: PinSet, pin: Pin, found: "_Listed") -> None:
        """Raises PinRefused if the pins would take more than they may."""
        used = {state.pin: state.used for state in self.states()}
        at_least = "" if found.is_complete else "at least "
        for pool, size in found.by_pool.items():
            if pool.quota is not None and size > pool.quota:
                raise PinRefused(
                    f"s3://{pin.path} has {at_least}{round_size(size)} under the rule {pool.name}, whose quota is"
                    f" {round_size(pool.quota)}."
                )
        if not found.size or not pins.is_outermost(pin):
            return  # it takes nothing that is not taken already, or is counted as it comes
        needed = pins.needed(used)
        others = needed - pins.needed_by(pin, used)
        if others + max(found.size, pins.needed_by(pin, used)) > self.quota:
            raise PinRefused(
                f"s3://{pin.path} has {at_least}{round_size(found.size)}; pins may take {round_size(self.quota)} of"
                f" the SSD tier (ssd.pin_quota), and others need {round_size(others)} of it."
            )
