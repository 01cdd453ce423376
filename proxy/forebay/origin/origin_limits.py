"""The limits on the origin: timeouts, concurrency, the breaker's numbers, and when a read is repeated. Pure.

Two timeouts bound a response: one to its head, one between the pieces of its body. None bounds the whole, since a large
body over a thin line is slow without being broken.

Reads are repeated with exponential backoff and full jitter: a delay drawn evenly from 0 to the bound spreads a herd
best. https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from dataclasses import dataclass
from typing import Final

RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class OriginLimits:
    """Plain numbers, checked by the settings. All durations in seconds."""

    reads: int = 256
    """GET and HEAD requests in flight at most. Writes are counted apart, so that neither starves the other."""
    writes: int = 64
    """All other requests in flight at most."""
    wait: float = 10.0
    """The longest wait of a request for its turn; then it is throttled."""
    min_client_rate: float = 0.0
    """Bytes a second: a client that is slower loses its turn to a request that waits; 0: none does."""
    connect_timeout: float = 5.0
    """Name resolution, TCP and TLS together."""
    answer_timeout: float = 60.0
    """Seconds from the last byte of the request to the head of the response."""
    stall_timeout: float = 60.0
    """Seconds between two pieces of a body, in either direction, while the origin is waited for."""
    keepalive: float = 15.0
    """The longest idle time of a connection. Shorter than origins', so that they rarely close first."""
    attempts: int = 3
    """Attempts of a read at most, the first included."""
    backoff_base: float = 0.05
    backoff_cap: float = 2.0
    retry_deadline: float = 90.0
    """No attempt begins later than this after the first."""
    breaker_failures: int = 10
    """Failures in a row that make the origin suspected (forebay.origin.breaker): a probe opens the breaker then."""
    breaker_cooldown: float = 1.0
    """Between two probes of a suspected origin, and so the longest time that an open breaker stays open once the origin
    responds."""

    def delay_before(self, attempt: int, elapsed: float, jitter: float) -> float | None:
        """Seconds to wait before attempt number `attempt` (the first is 1); None when there is to be none.

        `elapsed`: seconds since the first attempt began. `jitter`: drawn evenly from [0, 1).
        """
        if attempt > self.attempts:
            return None
        delay = min(self.backoff_cap, self.backoff_base * 2.0 ** (attempt - 2)) * jitter
        return delay if elapsed + delay < self.retry_deadline else None
