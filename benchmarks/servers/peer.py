"""A server that is measured, and the proof that it answers what it should."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection, TimedResponse
from benchmarks.origins.origin import Origin

_FILLS: Final = 5
_WHOLE: Final = (200, 206)
"""An object, or the range that was asked for: its length and its digest say which it was."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A running one."""

    name: str
    port: int
    group: int
    """Its process group."""
    hit_header: str
    """Tells where an answer came from; in lower case."""
    hit: str
    """What it says of the hits that are measured."""
    requests: Callable[[Sequence[str]], list[bytes]]
    """Requests for these paths, at least one for each and in their order, good for some minutes."""
    log: Path
    quicker: str = ""
    """What it may say of a few."""

    def fill(self, targets: Sequence[str]) -> None:
        """Read each object once."""
        with KeepAliveConnection(self.port) as connection:
            for request in self.requests(targets)[: len(targets)]:
                answer = connection.get(request)
                if answer.status not in _WHOLE:
                    raise UnexpectedResponse(f"{self.name} answers {answer.status} to {request!r}")

    def settle(self, origin: Origin, targets: Sequence[str]) -> None:
        """Read each object until nothing is asked of the origin any more: a cache that can't keep up with its disk lets
        go of what it can't write."""
        for _ in range(_FILLS):
            before = origin.counters().gets
            self.fill(targets)
            if origin.counters().gets == before:
                return
        raise UnexpectedResponse(f"{self.name} does not keep what it has read")

    def check(self, targets: Sequence[str], digests: Mapping[str, str]) -> None:
        """Read each object once, compare every byte, and see that all of them are the hits that are to be measured; or
        all but a few, which may be of a quicker kind."""
        quicker = 0
        with KeepAliveConnection(self.port) as connection:
            for target, request in zip(targets, self.requests(targets), strict=False):
                answer = connection.get(request, digest=True)
                told = answer.headers.get(self.hit_header)
                if (
                    answer.status not in _WHOLE
                    or answer.sha256 != digests[target]
                    or told not in (self.hit, self.quicker)
                ):
                    raise UnexpectedResponse(f"{self.name}: {_shown(answer)}, {self.hit_header}: {told} for {target}")
                quicker += told != self.hit
        if quicker > len(targets) // 2 + 1:
            raise UnexpectedResponse(f"{self.name}: {quicker} of {len(targets)} were {self.quicker}")


def _shown(answer: TimedResponse) -> str:
    return f"status {answer.status}, {answer.length} bytes, sha256 {answer.sha256[:12]}"


def digests_of(port: int, requests: Mapping[str, bytes]) -> dict[str, str]:
    """What the objects hash to, by target, as the origin itself gives them."""
    with KeepAliveConnection(port) as connection:
        return {target: connection.get(request, digest=True).sha256 for target, request in requests.items()}
