"""The attachment of the SSD tier: its directory is opened at the start or, if it can't be used then, while serving.

    start ──> opened ────────────────────────────────────────────────> serving with it
          └─> in use, full, unreadable ──> serving without it ──> tried again ──┘

Until the tier is attached, `Tiers.ssd` is None: reads and writes go on without it, and nothing waits for it. Then it
changes once. Hits in memory are not affected, and their heads stay trusted: each write of this run has reached memory.
The heads in the directory are not trusted, since no write has reached them: the run is marked detached before it serves
(storage.run_record), so every head in the directory counts as never validated.

Several workers attach each by itself, and need not agree. A write forgets its object in all workers, thus in the
directory if any has it (write.invalidation). A worker that opens it when no other has it trusts nothing from before;
one that joins others finds what those have kept up.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from forebay.core.errors import SsdInUse, SsdUnusable
from forebay.core.events import Observe, TierFailed
from forebay.core.units import format_size
from forebay.settings.model import SsdSettings
from forebay.storage.cache_origin import CacheOrigins
from forebay.storage.run_record import NodeRun
from forebay.storage.ssd.ssd_tier import SsdTier
from forebay.storage.tier_contract import Occupancy
from forebay.storage.tiers import Tiers

FIRST_PAUSE: Final = 1.0
"""Seconds between two attempts, while another Forebay has the directory: an attempt costs next to nothing."""
LONGEST_PAUSE: Final = 60.0
"""Seconds between two attempts after other failures: they double until then."""

_log = logging.getLogger(__name__)


class SsdAttachment:
    """Attaches the SSD tier to the tiers of one worker."""

    def __init__(
        self,
        tiers: Tiers,
        settings: SsdSettings,
        origins: CacheOrigins,
        run: NodeRun,
        observe: Observe,
        *,
        family: str | None,
        clock: Callable[[], float],
    ) -> None:
        """`family`, `clock`: see SsdTier.open."""
        self._tiers = tiers
        self._path = Path(settings.path)
        self._capacity = settings.size
        self._origins = origins
        self._run = run
        self._observe = observe
        self._family = family
        self._clock = clock
        self.failure = ""
        """Why the directory can't be used, at the latest attempt that failed."""
        self._attempt_lock = asyncio.Lock()

    def attach_at_start(self) -> None:
        """Opens the directory, or leaves it for `attach_while_serving`. Before a byte is served."""
        try:
            tier = self._open()
        except SsdUnusable as unusable:
            self._run.detach()
            self._failed(unusable)
        else:
            self._attached(tier)

    async def attach_while_serving(self, first_pause: float = FIRST_PAUSE) -> None:
        """Tries to open the directory until it is. Returns once the tier is attached."""
        pause = first_pause
        while self._tiers.ssd is None:
            await asyncio.sleep(pause)
            failure = await self.attempt()
            pause = first_pause if isinstance(failure, SsdInUse) else min(2 * pause, LONGEST_PAUSE)

    async def attempt(self) -> SsdUnusable | None:
        """Tries once, in a thread, and returns why the directory can't be used; None: the tier is attached."""
        async with self._attempt_lock:
            return None if self._tiers.ssd is not None else await self._attempt()

    async def _attempt(self) -> SsdUnusable | None:
        opening = asyncio.get_running_loop().run_in_executor(None, self._open)
        try:
            tier = await asyncio.shield(opening)
        except SsdUnusable as unusable:
            self._failed(unusable)
            return unusable
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            if opening.exception() is None:
                await opening.result().close()
            raise
        _log.info("the SSD tier is in use from here on")
        self._attached(tier)
        return None

    def resize(self, capacity: int) -> None:
        """Changes the capacity, also of a tier that is not attached yet."""
        self._capacity = capacity
        if self._tiers.ssd is not None:
            self._tiers.ssd.resize(capacity)

    def occupancy(self) -> Occupancy:
        """Returns how full the tier is: empty while it is not attached."""
        return self._tiers.ssd.occupancy() if self._tiers.ssd is not None else Occupancy(self._capacity, 0, 0, 0)

    def _open(self) -> SsdTier:
        return SsdTier.open(
            self._path,
            self._capacity,
            self._origins,
            self._run,
            self._observe,
            family=self._family,
            clock=self._clock,
            pins=self._tiers.pins,
        )

    def _attached(self, tier: SsdTier) -> None:
        if tier.usable < self._capacity:
            _log.warning(
                "the file system of ssd.path has room for %d MiB, less than ssd.size (%s): the SSD tier uses no more",
                tier.usable >> 20,
                format_size(self._capacity),
            )
        if tier.doubt is not None:
            _log.warning("every object on the SSD is revalidated once: %s", tier.doubt)
        tier.resize(self._capacity)  # it may have changed meanwhile, as the pins may
        tier.use_pins(self._tiers.pins)
        self._tiers.ssd = tier

    def _failed(self, unusable: SsdUnusable) -> None:
        """Reports a failure, once for each reason; the observer of the event logs the reason."""
        if str(unusable) != self.failure:
            self.failure = str(unusable)
            self._observe(TierFailed("ssd", "open", str(unusable)))
            _log.warning("serving without the SSD tier, whose directory is tried again")
