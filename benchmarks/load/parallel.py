"""A client that reads over several connections at once, and drops what it reads.

Threads, as most of the time is spent in the kernel: what a client can get out of a link or a server, not what a program
would do with it.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.signed_requests import unsigned


def read_in_parallel(port: int, target: str, size: int, connections: int, run: int) -> float:
    """Read one object by ranged GETs; the seconds that it took, connecting included."""
    [plain] = unsigned(port, [target])
    spans = [(start, min(start + run, size)) for start in range(0, size, run)]
    asked = [plain[:-2] + b"Range: bytes=%d-%d\r\n\r\n" % (start, stop - 1) for start, stop in spans]
    started = time.perf_counter()
    if _read(port, asked, connections, 206) != size:
        raise UnexpectedResponse(f"the ranges of {size} bytes came to something else")
    return time.perf_counter() - started


def read_all(port: int, requests: Sequence[bytes], connections: int, size: int) -> None:
    """Send each of these requests once; the answers are whole objects of `size` bytes."""
    if _read(port, requests, connections, 200) != size * len(requests):
        raise UnexpectedResponse(f"{len(requests)} objects of {size} bytes came to something else")


def _read(port: int, requests: Sequence[bytes], connections: int, status: int) -> int:
    todo = list(reversed(requests))

    def read(_: int) -> int:
        length = 0
        with KeepAliveConnection(port) as connection:
            while todo:
                try:
                    request = todo.pop()
                except IndexError:
                    break  # another thread was quicker
                answer = connection.get(request)
                if answer.status != status:
                    raise UnexpectedResponse(f"status {answer.status} to {request!r}")
                length += answer.length
        return length

    with ThreadPoolExecutor(connections) as pool:
        return sum(pool.map(read, range(connections)))
