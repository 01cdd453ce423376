"""A child process that runs a module of ours.

A child has its own session, so Ctrl-C in the terminal reaches only the parent, which ends the child in order. It runs
under a parent watch (forebay.workers.parent_watch), so that it never outlives us; and it writes its standard error to a
file, whose tail becomes part of the error when it dies too soon.
"""

import importlib.util
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from forebay.core.errors import StartError

_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
_TAIL = 2000  # bytes of its log that an error shows: about a traceback

_PACKAGES = ("forebay", "forebay_client")  # the child must find what we found, also when we are not installed


class DemoUnavailable(StartError):
    """The demo can't run here. The message is a sentence for the user, and says what to do."""


class ChildProcess:
    """A running process. Use as a context manager, or call `close`."""

    def __init__(
        self,
        module: str,
        *arguments: str,
        log: Path,
        pass_fds: Sequence[int] = (),
        environment: Mapping[str, str] = os.environ,
        announces: bool = True,
    ) -> None:
        """Starts `python -m module arguments`.

        `announces`: it prints one line when it is ready, for `first_line`, and no more. Otherwise what it prints goes
        to its log.
        """
        self.module = module
        self._log = log
        with log.open("ab") as stderr:
            self._log_start = stderr.tell()
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own modules
                # -P: the working directory is the user's, and no place to import from
                [sys.executable, "-P", "-m", "forebay.workers.parent_watch", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if announces else stderr,
                stderr=stderr,
                pass_fds=pass_fds,
                env={**environment, "PYTHONPATH": _search_path(environment)},
                start_new_session=True,
            )

        self._announcements = self._process.stdout.fileno() if self._process.stdout else -1

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def ended_within(self, seconds: float) -> bool:
        """Waits for its end, at most so long; whether it has ended."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def first_line(self, seconds: float) -> str:
        """The first line it prints: how a child says that it is ready. DemoUnavailable if it dies, or takes longer."""
        deadline = time.monotonic() + seconds
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([self._announcements], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise self.failed(f"was not ready after {seconds:g} seconds")
            received = os.read(self._announcements, 4096)
            if not received:
                raise self.failed("ended while starting")
            line += received
        return line.decode()

    def failed(self, event: str) -> DemoUnavailable:
        """An error that names `event`, with the end of the child's log."""
        with self._log.open("rb") as log:
            log.seek(max(self._log_start, self._log.stat().st_size - _TAIL))
            tail = log.read().decode(errors="replace").strip()
        return DemoUnavailable(
            f"{self.module} {event}; its log is {self._log}" + (f" and ends:\n{tail}" if tail else ".")
        )

    def close(self) -> None:
        """SIGTERM to its group, then SIGKILL. Returns when it is gone; may be called again."""
        if self.is_alive:
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
                self._process.wait()
        for pipe in filter(None, (self._process.stdin, self._process.stdout)):
            pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _search_path(environment: Mapping[str, str]) -> str:
    found = [spec.origin for spec in map(importlib.util.find_spec, _PACKAGES) if spec is not None and spec.origin]
    roots = [str(Path(origin).parents[1]) for origin in found]
    return os.pathsep.join([*roots, *filter(None, [environment.get("PYTHONPATH")])])
