"""A client that reads one object by ranged GETs over several connections at once, and drops what it reads.

Threads, as the time is spent in the kernel: what a client can get out of a link, not what a program would do with it.
"""

import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.requests import unsigned
from benchmarks.wire import Connection, WrongAnswer


def read_in_parallel(port: int, target: str, size: int, connections: int, run: int) -> float:
    """Seconds that it took, connecting included."""
    todo = [(start, min(start + run, size)) for start in range(0, size, run)][::-1]
    [plain] = unsigned(port, [target])

    def read(_: int) -> None:
        with Connection(port) as connection:
            while todo:
                try:
                    start, stop = todo.pop()
                except IndexError:
                    return  # another thread was quicker
                answer = connection.get(plain[:-2] + b"Range: bytes=%d-%d\r\n\r\n" % (start, stop - 1))
                if answer.status != 206 or answer.length != stop - start:
                    raise WrongAnswer(f"status {answer.status}, {answer.length} bytes of {start} to {stop}")

    with ThreadPoolExecutor(connections) as pool:
        started = time.perf_counter()
        list(pool.map(read, range(connections)))
        return time.perf_counter() - started
