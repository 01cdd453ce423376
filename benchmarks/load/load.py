"""What one round of load came to."""

from collections.abc import Sequence
from typing import NamedTuple


class Load(NamedTuple):
    """Times in seconds."""

    requests: int
    seconds: float
    size: int
    """Bytes of the bodies, of answers under way at the end perhaps too."""
    p50: float
    """From sending a request to the last byte of its answer."""
    p99: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of the values don't exceed. `ordered` ascends; of nothing it is 0."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
