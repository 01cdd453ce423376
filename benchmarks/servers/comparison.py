"""Compares servers under the same load, in turns A B A B ..., so that other load of the machine affects all alike."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.generator import Generator
from benchmarks.load.load import Load
from benchmarks.load.wrk import run_wrk
from benchmarks.processes import cores
from benchmarks.run_sizes import KIB, RunSizes
from benchmarks.servers.peer import Peer

_WRK_UP_TO: Final = 32 * KIB
"""The largest body for which wrk is the better generator: see benchmarks.load.wrk and benchmarks.load.generator."""


@dataclass(slots=True)
class Rounds:
    """What one server did in its rounds."""

    peer: Peer
    loads: list[Load] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)
    """CPU seconds of the server by seconds of the round. Well under 1: the generator was the bottleneck."""

    @property
    def rate(self) -> float:
        """Requests a second, as all figures here the median of the rounds."""
        return median(load.rate for load in self.loads)

    @property
    def p50(self) -> float:
        return median(load.p50 for load in self.loads)

    @property
    def p99(self) -> float:
        return median(load.p99 for load in self.loads)

    @property
    def cpu_per_request(self) -> float:
        """Seconds. The most telling figure on a machine that others use too."""
        pairs = zip(self.loads, self.busy, strict=True)
        return median(busy * load.seconds / max(1, load.requests) for load, busy in pairs)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Of two servers, round by round."""

    median: float
    low: float
    high: float


def ratio(ours: Rounds, theirs: Rounds) -> Ratio:
    """Of requests a second: above 1, ours are more."""
    return _ratio([mine.rate / other.rate for mine, other in zip(ours.loads, theirs.loads, strict=True)])


def p99_ratio(ours: Rounds, theirs: Rounds) -> Ratio:
    """Of the 99th percentiles: below 1, ours are shorter."""
    return _ratio([mine.p99 / other.p99 for mine, other in zip(ours.loads, theirs.loads, strict=True)])


def _ratio(each: list[float]) -> Ratio:
    each.sort()
    return Ratio(median(each), each[0], each[-1])


class Comparison:
    """The load of one run: how it is made, and for how long."""

    def __init__(self, effort: RunSizes, wrk: str | None) -> None:
        self._effort, self._wrk = effort, wrk

    def generator(self, size: int) -> str:
        """The one that is used for bodies of this size."""
        return "wrk" if self._wrk is not None and size <= _WRK_UP_TO else "own"

    def run_rounds(
        self,
        peers: Sequence[Peer],
        targets: Sequence[str],
        size: int,
        digests: Mapping[str, str],
        connections: int,
        *,
        together: int = 1,
        rate: float | None = None,
    ) -> list[Rounds]:
        """The rounds of each peer. Every object is compared byte for byte before and after, and is a hit both times.

        `together`: so many requests at once on each connection, which takes wrk. `rate`: so many a second of all.
        """
        requests = {peer.name: peer.requests(targets) for peer in peers}
        for peer in peers:
            peer.check(targets, digests)
        all_rounds = [Rounds(peer) for peer in peers]
        for turn in range(self._effort.rounds):
            # Who begins changes from round to round: the second one finds warmer caches, or a hotter core.
            for rounds in all_rounds if turn % 2 == 0 else reversed(all_rounds):
                self._round(rounds, requests[rounds.peer.name], size, connections, together, rate)
        for peer in peers:
            peer.check(targets, digests)
        return all_rounds

    def _round(
        self,
        rounds: Rounds,
        requests: Sequence[bytes],
        size: int,
        connections: int,
        together: int,
        rate: float | None,
    ) -> None:
        peer = rounds.peer
        own = rate is not None or (together == 1 and self.generator(size) == "own")
        with cores.pinned(cores.LOAD), ExitStack() as stack:
            if own:
                generator = stack.enter_context(Generator(peer.port, requests, connections))
            before, started = cores.cpu_seconds(peer.group), time.perf_counter()
            if rate is not None:
                load = generator.paced(self._effort.round_seconds, rate)
            elif own:
                load = generator.run(self._effort.round_seconds)
            else:
                assert self._wrk is not None
                load = run_wrk(self._wrk, peer.port, requests, connections, self._effort.round_seconds, together)
            elapsed = time.perf_counter() - started
            rounds.busy.append((cores.cpu_seconds(peer.group) - before) / elapsed)
        if load.size < load.requests * size:
            raise UnexpectedResponse(f"{peer.name}: {load.requests} answers of {size} bytes came to {load.size} bytes")
        rounds.loads.append(load)
        if peer.log.exists():
            os.truncate(peer.log, 0)  # it is appended to; the access lines of minutes need not fill the disk
