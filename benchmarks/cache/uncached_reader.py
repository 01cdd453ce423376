"""Reads objects from the disk, not the page cache:
`python -m benchmarks.cache.uncached_reader PORT DIRECTORY TARGET ...`.

The targets are read in turn from a Forebay whose SSD tier is in DIRECTORY. Before each turn the segments are dropped
from the page cache. Prints a line after the first turn, and runs until it is terminated.
"""

import os
import sys
import time
from pathlib import Path

from benchmarks.errors import UnexpectedResponse
from benchmarks.load.http_client import KeepAliveConnection
from benchmarks.load.signed_requests import signed


def main(port: int, directory: Path, targets: list[str]) -> None:
    with KeepAliveConnection(port) as connection:
        for turn in range(sys.maxsize):
            for segment in directory.rglob("*.seg"):
                with segment.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for request in signed(port, targets, time.time(), count=len(targets)):
                answer = connection.get(request)
                if answer.status != 200:
                    raise UnexpectedResponse(f"{answer.status} for a hit on the SSD")
            if turn == 0:
                print(flush=True)  # what the parent waits for


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
