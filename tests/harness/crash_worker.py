"""Processes that are killed, quick to start: `python -m harness.crash_worker` imports everything once, and forks one
for each line of its standard input. For harness.fork_server.

    {"file": a configuration, "name": a point or null, "nth": when, or null, "is_serving": whether from then on}
        a worker that is alone, and may kill itself at a call of its journal (harness.journal_points)
    {"file": likewise, "calls": a file, "name": likewise, "nth": likewise, "error": an errno, or null to be killed,
     "is_short": whether half is written before}
        a worker that is alone, and may kill itself, or fail, at any call that changes a file (harness.file_calls); its
        points are appended to the file, a line each
    {"directory": of the sockets, "number": 0, "workers": 4, "group": an id}
        a worker of a node, which waits for its supervisor's orders

    ──> "forked PID", and "serving PID PORT", the second kind with the port of its admin port behind

They end with this process, which ends with its standard input.
"""

import asyncio
import contextlib
import ctypes
import gc
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from forebay.core.errors import StartError
from forebay.server.config_source import ConfigSource
from forebay.server.worker import Worker
from forebay.workers import node_worker
from harness.file_calls import FileCalls
from harness.imported_modules import import_forebay
from harness.journal_points import FailOnce, KillAt, PointedFiles
from harness.short_writes import ShortWrite

_PR_SET_PDEATHSIG: Final = 1


async def serve_at_calls(order: dict[str, Any]) -> None:
    calls = os.open(order["calls"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    name, nth, error = order["name"], order["nth"], order["error"]
    act: Callable[[str], None] = KillAt(name, nth) if error is None else FailOnce(name, nth, error)

    write = os.write

    def at(point: str) -> None:
        write(calls, f"{point}\n".encode())
        if not order["is_short"]:
            act(point)

    if order["is_short"]:
        ShortWrite(name, nth, error).install()
    FileCalls(at).watch()
    source = ConfigSource(Path(order["file"]), {}, {})
    worker = Worker(source.load().settings, source)
    try:
        await worker.start()
    except StartError as error:  # as forebay_client.cli prints it
        sys.stderr.write(f"forebay: {error}\n")
        return
    say(f"serving {os.getpid()} {worker.address[1]} {worker.admin_address[1]}")
    await asyncio.Event().wait()


async def serve(order: dict[str, Any]) -> None:
    source = ConfigSource(Path(order["file"]), {}, {})
    at = KillAt(order["name"], order["nth"], is_armed=not order["is_serving"])
    worker = Worker(source.load().settings, source, journal_files=PointedFiles(at))
    await worker.start()
    at.is_armed = True
    say(f"serving {os.getpid()} {worker.address[1]}")
    await asyncio.Event().wait()


def run(order: dict[str, Any]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if "calls" in order:
        asyncio.run(serve_at_calls(order))
    elif "file" in order:
        asyncio.run(serve(order))
    else:
        node_worker.run(Path(order["directory"]), order["number"], order["workers"], order["group"])


def reap() -> None:
    """Takes leave of those that have ended; their CPU time counts as this process's."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def say(line: str) -> None:
    os.write(sys.stdout.fileno(), f"{line}\n".encode())


def main() -> None:
    gc.disable()
    import_forebay()
    gc.freeze()  # or the first collection of each process would copy all of it
    signal.signal(signal.SIGCHLD, lambda *_: reap())
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            gc.enable()
            run(json.loads(line))
            os._exit(0)
        say(f"forked {pid}")


if __name__ == "__main__":
    main()
