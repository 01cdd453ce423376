"""The account of one request: what it came to, for the access log and the metrics.

The steps write into it as they learn; nobody decides anything by it.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

CacheStatus: TypeAlias = Literal["hit-memory", "hit-ssd", "hit-worker", "partial", "miss", "revalidated", "bypass"]

Step: TypeAlias = Literal[
    "parse", "authenticate", "authorise", "rule", "freshness", "plan", "tiers", "flight", "origin", "reply"
]


@dataclass(slots=True)
class RequestRecord:
    """One request. Times are seconds on the monotonic clock; sizes are bytes."""

    method: str
    lane: Literal["fast", "full"]
    started: float
    request_id: str
    peer: str = ""
    operation: str = "Unknown"
    principal: str = ""
    bucket: str = ""
    key: str = ""
    rule: str = ""
    cache: CacheStatus | None = None
    status: int = 0
    error: str = ""
    """The S3 code of the answer if it was an error of ours, else empty."""
    step: Step = "parse"
    """The last step that was begun; where it failed, if it did."""
    received: int = 0
    """Body bytes that came from the client."""
    sent: int = 0
    """Body bytes that went to the client."""
    sent_from: dict[str, int] = field(default_factory=dict)
    """The same by where they came from: memory, ssd, flight (fetched for this reader), joined (fetched for another),
    origin (passed on)."""
    first_byte: float = 0.0
    ended: float = 0.0
    aborted: bool = False
    """The connection was broken: by us because the answer could not be finished, or by the client."""

    def count_sent(self, source: str, size: int) -> None:
        self.sent += size
        self.sent_from[source] = self.sent_from.get(source, 0) + size
