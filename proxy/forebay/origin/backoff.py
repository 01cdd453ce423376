"""When a read is asked again: exponential backoff with full jitter, and a deadline. Pure.

Full jitter (a delay drawn evenly from 0 to the bound) spreads a herd best:
https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
"""

from typing import Final

from forebay.origin.origin_limits import OriginLimits

RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})


def delay_before(attempt: int, limits: OriginLimits, elapsed: float, jitter: float) -> float | None:
    """Seconds to wait before attempt number `attempt` (the first one is 1), None when there is to be no such attempt.

    `elapsed` is the time since the first attempt began; `chance` is drawn evenly from [0, 1).
    """
    if attempt > limits.attempts:
        return None
    bound = min(limits.backoff_cap, limits.backoff_base * 2.0 ** (attempt - 2))
    delay = bound * jitter
    return delay if elapsed + delay < limits.retry_deadline else None
