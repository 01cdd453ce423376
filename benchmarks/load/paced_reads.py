"""A client that is not at its limit: it reads one object, once every PACE seconds."""

import threading
import time
from typing import Final

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.signed_requests import signed
from benchmarks.processes import cores

PACE: Final = 0.002
"""Seconds between two requests."""


def times(port: int, target: str, count: int) -> tuple[float, float]:
    """Median and 99th percentile of `count` hits, in seconds."""
    taken = latencies(port, target, count)
    return taken[len(taken) // 2], taken[len(taken) * 99 // 100]


def latencies(port: int, target: str, count: int) -> list[float]:
    """The times of `count` hits, in seconds, ascending."""
    wires = signed(port, [target], time.time(), count=count)
    taken = []
    with KeepAliveConnection(port) as connection, cores.before_others():
        due = time.perf_counter()
        for wire in wires:
            due += PACE
            threading.Event().wait(max(0.0, due - time.perf_counter()))
            answer = connection.get(wire)
            if answer.status != 200:
                raise UnexpectedResponse(f"{answer.status} for a hit")
            taken.append(answer.total)
    return sorted(taken)
