"""The process of a worker among several: prepares the start, then imports what it is made of (workers.node_worker).

    python -m forebay.workers.parent_watch forebay.workers.worker_main DIRECTORY WORKER WORKERS FAMILY

It hangs on the lifeline, so that it never outlives the supervisor.
"""

import sys
from pathlib import Path

from forebay.server.startup import import_aiohttp, pause_collector


def main() -> int:
    directory, number, workers, family = sys.argv[1:]
    pause_collector()
    import_aiohttp()
    from forebay.workers.node_worker import run  # noqa: PLC0415 # the start is prepared before it is imported

    return run(Path(directory), int(number), int(workers), family)


if __name__ == "__main__":
    sys.exit(main())
