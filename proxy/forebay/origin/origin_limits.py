"""How far the origin is trusted: timeouts, concurrency, retries, the breaker. Plain numbers, checked by whoever made
them.

Two timeouts bound an answer: one to its head, one between the pieces of its body. There is none on the whole of it,
since a large body over a thin line is slow and sound.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OriginLimits:
    """All durations in seconds."""

    reads: int = 256
    """GET and HEAD requests in flight at most. Writes are counted apart, so that neither starves the other."""
    writes: int = 64
    """All other requests in flight at most."""
    wait: float = 10.0
    """How long a request waits for its turn before it is throttled."""
    connect_timeout: float = 5.0
    """Name resolution, TCP and TLS together."""
    answer_timeout: float = 60.0
    """From the last byte of the request to the head of the answer."""
    stall_timeout: float = 60.0
    """Between two pieces of a body, in either direction, while the origin is the one that is waited for."""
    keepalive: float = 15.0
    """How long an idle connection is kept. Shorter than origins do, so that it's rarely they who close."""
    attempts: int = 3
    """How often a read is asked at most, the first time included."""
    backoff_base: float = 0.05
    backoff_cap: float = 2.0
    retry_deadline: float = 90.0
    """No read is asked again later than this after it was first asked."""
    breaker_failures: int = 10
    """Connection failures in a row that open the breaker."""
    breaker_cooldown: float = 1.0
    """How long an open breaker refuses before it lets one request try."""
