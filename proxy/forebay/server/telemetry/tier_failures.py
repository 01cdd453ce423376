"""Failures of the tiers: the log has each kind once a minute at most, and stats and readiness know of the latest.

A failing disk fails each read, thousands in a second. So a kind of failure (tier, operation, reason) is logged at once
the first time, then once a minute with a count. File names and numbers in a reason make no kind of their own. A tier is
failing until it has had no failure for two minutes: the SSD tier's writer tries again after a minute at the latest.

Called under the lock of forebay.server.telemetry.metrics, from any thread. The latest failures may be read without it.
"""

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from forebay.core.events import TierFailed, TierName

_log = logging.getLogger(__name__)

LOG_INTERVAL: Final = 60.0
"""Seconds between two log lines of the same kind of failure."""
FAILING_SECONDS: Final = 120.0
"""Seconds after a failure for which a tier counts as failing."""
MOST_KINDS: Final = 64
"""The most kinds of failures; beyond them, the kinds that were quiet for a minute are dropped."""

_VARYING: Final = re.compile(r"'[^']*'|\d{5,}")


@dataclass(slots=True)
class _Kind:
    logged_at: float
    unlogged: int = 0


class TierFailures:
    """The failures of one worker's tiers. `monotonic`: seconds of a clock that never goes back."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._kinds: dict[tuple[str, str, str], _Kind] = {}
        self._latest: dict[TierName, tuple[float, TierFailed]] = {}

    def record(self, failure: TierFailed) -> None:
        """Logs a failure, unless its kind was logged within the last minute."""
        now = self._monotonic()
        self._latest[failure.tier] = now, failure
        key = failure.tier, failure.operation, _VARYING.sub("...", failure.reason)
        kind = self._kinds.get(key)
        if kind is not None and now - kind.logged_at < LOG_INTERVAL:
            kind.unlogged += 1
            return
        if kind is None and len(self._kinds) >= MOST_KINDS:
            self._kinds = {each: seen for each, seen in self._kinds.items() if now - seen.logged_at < LOG_INTERVAL}
            if len(self._kinds) >= MOST_KINDS:
                return
        more = f" (and {kind.unlogged} times more since it was last logged)" if kind and kind.unlogged else ""
        _log.warning("the %s tier failed: %s: %s%s", failure.tier, failure.operation, failure.reason, more)
        self._kinds[key] = _Kind(now)

    def latest(self, tier: TierName) -> TierFailed | None:
        """The latest failure of a tier that is failing; None: it is not."""
        at, failure = self._latest.get(tier, (0.0, None))
        return failure if self._monotonic() - at < FAILING_SECONDS else None
