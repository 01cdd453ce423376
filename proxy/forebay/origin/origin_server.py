"""The origin server (RFC 9110, 3.6): its endpoint, region and dialect."""

from dataclasses import dataclass

from yarl import URL

from forebay.core.events import DEFAULT_ORIGIN
from forebay.origin.dialects import Dialect


@dataclass(frozen=True, slots=True)
class OriginServer:
    """One origin, without limits and credentials."""

    endpoint: URL | str
    region: str
    """The region of the signatures of requests, but for buckets known to be elsewhere."""
    dialect: Dialect
    ca_file: str | None = None
    """The authorities that are trusted; None: those of the system."""
    name: str = DEFAULT_ORIGIN
    """The name of the origin in the log, stats and metrics."""
