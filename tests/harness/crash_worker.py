"""Workers that are killed, quick to start: `python -m harness.crash_worker` imports everything once, and forks a worker
for each line of its standard input.

    {"file": a configuration, "name": a point or null, "nth": when, or null, "trace": a file or null}
        ──> "PID"              the worker is forked
        ──> "PID PORT"         it serves
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from forebay.server.config_source import ConfigSource
from forebay.server.worker import Worker
from harness.journal_points import KillAt, PointedFiles


async def serve(order: dict[str, Any]) -> None:
    trace = os.open(order["trace"], os.O_WRONLY | os.O_CREAT | os.O_APPEND) if order["trace"] is not None else None
    source = ConfigSource(Path(order["file"]), {}, {})
    files = PointedFiles(KillAt(order["name"], order["nth"], trace))
    worker = Worker(source.load().settings, source, journal_files=files)
    await worker.start()
    say(f"{os.getpid()} {worker.address[1]}")
    await asyncio.Event().wait()


def say(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main() -> None:
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            asyncio.run(serve(json.loads(line)))
        say(str(pid))
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
