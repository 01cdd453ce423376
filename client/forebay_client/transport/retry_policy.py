"""The retry policy: full jitter on an exponential backoff, as SDKs have it.

A server that can't be connected to is waited for by time, not by attempts: `patience`, and outage_delay between two.

https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 20.0
_DOUBLINGS: Final = 8
"""Doublings of the first delay, after which it is longer than the longest."""
PATIENCE: Final = 1.25
"""A server is waited for so many seconds for each retry, at least."""
_SILENCE: Final = 0.25
"""The share of the timeout for each retry: an attempt without an answer costs all of it, so there are fewer."""
_LONGEST_OUTAGE_DELAY: Final = 1.0
"""An attempt to connect costs nobody much, and the server may be there again."""

_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_CODES: Final = frozenset({"RequestTimeout", "RequestTimeoutException"})


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Decides on retries. `random` returns a number from 0 to 1."""

    retries: int
    """Attempts after the first."""
    random: Callable[[], float]

    def delay(self, attempt: int, headers: Mapping[str, str]) -> float | None:
        """Seconds before the attempt that follows `attempt` (from 0); None: there is none. `headers`: of the response,
        whose Retry-After is obeyed within the longest delay."""
        if attempt >= self.retries:
            return None
        backoff: float = self.random() * _longest(attempt)
        wanted = headers.get("retry-after", "")
        return max(backoff, min(float(wanted), LONGEST_DELAY)) if wanted.isascii() and wanted.isdecimal() else backoff

    def outage_delay(self, attempt: int) -> float:
        """Seconds before the attempt to connect that follows `attempt` (from 0)."""
        return self.random() * min(_LONGEST_OUTAGE_DELAY, _longest(attempt))


def patience(retries: int) -> float:
    """Seconds for which a server is waited for that can't be connected to."""
    growing = min(retries, _DOUBLINGS)
    return max(PATIENCE * retries, sum(map(_longest, range(growing))) + LONGEST_DELAY * (retries - growing))


def silence(timeout: float, retries: int) -> float:
    """Seconds for which a server is waited for that takes connections and answers nothing."""
    return timeout * (1 + retries * _SILENCE)


def _longest(attempt: int) -> float:
    return min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** min(attempt, _DOUBLINGS))


def is_worth_retrying(status: int, code: str) -> bool:
    """Whether a refusal may be of this moment only."""
    return status in _STATUSES or code in _CODES
