"""The record of one request for the access log and the metrics, and the ids of requests.

The steps of a request write into its record. No decision depends on it.
"""

import itertools
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

HOST_ID: Final = secrets.token_hex(8)
"""The process that answers, in S3's header for it (x-amz-id-2) and in error documents: clients show it to people."""

CacheStatus: TypeAlias = Literal["hit-memory", "hit-ssd", "hit-worker", "partial", "miss", "revalidated", "bypass"]

Step: TypeAlias = Literal[
    "parse", "authenticate", "authorise", "rule", "freshness", "plan", "tiers", "flight", "origin", "reply"
]


@dataclass(slots=True)
class RequestRecord:
    """One request that the full lane answers. Times are seconds on the monotonic clock, sizes bytes."""

    method: str
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
    """The S3 code of an error response made by Forebay, else empty."""
    step: Step = "parse"
    """The last step that began: where the request failed, if it did."""
    received: int = 0
    """Body bytes received from the client."""
    sent: int = 0
    """Body bytes sent to the client."""
    sent_from: dict[str, int] = field(default_factory=dict)
    """The sent bytes by source: memory, ssd, flight (fetched for this reader), joined (fetched for another), origin
    (bypassed)."""
    first_byte: float = 0.0
    ended: float = 0.0
    aborted: bool = False
    """Whether the connection was broken: by Forebay because the response could not be finished, or by the client."""

    def count_sent(self, source: str, size: int) -> None:
        """Adds `size` bytes sent from `source`."""
        self.sent += size
        self.sent_from[source] = self.sent_from.get(source, 0) + size


def _request_ids() -> Iterator[str]:
    """Sixteen hex digits, as S3's ids are letters and digits: unique enough to find a request in a log.

    A counter with a random start, so that ids of one process never repeat. The last digits come from a table:
    formatting a number for each request costs a hit more than the copy of its body.
    """
    last = [f"{number:03X}" for number in range(1 << 12)]
    for number in itertools.count(secrets.randbits(48)):
        first = f"{number:013X}"
        for digits in last:
            yield first + digits


new_request_id: Final[Callable[[], str]] = _request_ids().__next__
"""Returns the id of the next request."""
