"""Reads a set of objects once an epoch, each time in a new order, and counts what the origin has sent for it."""

import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.origins.origin import Origin
from benchmarks.servers.peer import Peer

CONNECTIONS: Final = 8
"""So many requests at a time: with several workers, each has some."""
TENTHS: Final = 10


@dataclass(frozen=True, slots=True)
class EpochMisses:
    """What the origin has sent in one epoch, in bytes of bodies, over the bytes that were read."""

    tenths: tuple[float, ...]
    """Of each tenth of the epoch, over the bytes of the whole epoch."""

    @property
    def share(self) -> float:
        """The share of the bytes read that missed."""
        return sum(self.tenths)

    @property
    def unevenness(self) -> float:
        """The misses of the worst tenth over their mean; 1 where nothing missed."""
        return max(self.tenths) * len(self.tenths) / self.share if self.share else 1.0


def read_epochs(peer: Peer, origin: Origin, prefix: str, epochs: int) -> list[EpochMisses]:
    """Read all objects under `prefix` so many times, each time in a new order."""
    targets, size = origin.targets(prefix), origin.objects[prefix].size
    order = random.Random(0)
    found = []
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(CONNECTIONS))
        connections = [stack.enter_context(KeepAliveConnection(peer.port)) for _ in range(CONNECTIONS)]
        for _ in range(epochs):
            order.shuffle(targets)
            requests = peer.requests(targets)[: len(targets)]
            tenths = []
            for tenth in range(TENTHS):
                part = requests[len(requests) * tenth // TENTHS : len(requests) * (tenth + 1) // TENTHS]
                before = origin.counters().sent
                shares = [part[number::CONNECTIONS] for number in range(CONNECTIONS)]
                list(pool.map(_read, connections, shares, repeat(size)))
                tenths.append((origin.counters().sent - before) / (size * len(targets)))
            found.append(EpochMisses(tuple(tenths)))
    return found


def _read(connection: KeepAliveConnection, requests: Sequence[bytes], size: int) -> None:
    for request in requests:
        answer = connection.get(request)
        if (answer.status, answer.length) != (200, size):
            raise UnexpectedResponse(f"{answer} to {request!r}")
