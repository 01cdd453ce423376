"""`python -m benchmarks.dropping PORT DIRECTORY TARGET ...`: reads these, one after the other, from a Forebay whose SSD
tier lies in DIRECTORY, out of the disk: before each turn the page cache is made to forget the segments.

Prints a line once it is at it, and goes on until it is told to end.
"""

import os
import sys
import time
from pathlib import Path

from benchmarks.requests import signed
from benchmarks.wire import Connection, WrongAnswer


def main(port: int, directory: Path, targets: list[str]) -> None:
    with Connection(port) as connection:
        for turn in range(sys.maxsize):
            for segment in directory.rglob("*.seg"):
                with segment.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            for request in signed(port, targets, time.time(), count=len(targets)):
                answer = connection.get(request)
                if answer.status != 200:
                    raise WrongAnswer(f"{answer.status} for a hit on the SSD")
            if turn == 0:
                print(flush=True)  # what the parent waits for


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
