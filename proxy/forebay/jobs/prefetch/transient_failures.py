"""Transient failures: those of a fetch that may succeed later, as the origin, or Forebay, is overloaded or away."""

from typing import Final

from forebay.core.errors import (
    ForebayError,
    OriginBroken,
    OriginRefused,
    OriginUnreachable,
    PackUnavailable,
    PeerUnavailable,
    Throttled,
)

_TRANSIENT: Final = (OriginBroken, OriginUnreachable, PackUnavailable, PeerUnavailable, Throttled)


def is_transient(failure: ForebayError) -> bool:
    """Returns whether the fetch may succeed later."""
    if isinstance(failure, OriginRefused):
        return is_transient_status(failure.status)
    return isinstance(failure, _TRANSIENT)


def is_transient_status(status: int) -> bool:
    """Returns whether the origin may answer otherwise than with this HTTP status later."""
    return status == 429 or status >= 500
