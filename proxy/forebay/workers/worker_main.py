"""The entry point of a worker's process: prepares the start, then imports the worker's modules (node_worker).

    python -m forebay.workers.parent_watch forebay.workers.worker_main DIRECTORY WORKER WORKERS GROUP

`parent_watch` ends the process with the supervisor.
"""

import sys
from pathlib import Path

from forebay.server.startup import import_aiohttp, pause_collector


def main() -> int:
    """Runs the worker that the command line names; the exit code."""
    directory, number, workers, group = sys.argv[1:]
    pause_collector()
    import_aiohttp()
    from forebay.workers.node_worker import run  # noqa: PLC0415 # the start is prepared before it is imported

    return run(Path(directory), int(number), int(workers), group)


if __name__ == "__main__":
    sys.exit(main())
