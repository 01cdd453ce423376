"""An event loop whose clock jumps: what waits for time only gets it at once, so that no test waits for a timeout.

    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(...)                        # the clock goes as everywhere
        with loop.jumping():                   # from here on, when no socket has anything: to the next timer at once
            ...

While a thread of an executor works for the loop (a name is resolved, a file read), the clock is real, and while any
other thread runs, waits for a core or for the disk (the SSD tier's writer, the journal's commits). A thread that
sleeps is not seen, nor are other processes: time passes them by. Outside of `jumping` the clock is real, but for the
jumps made.
"""

import asyncio
import selectors
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeVar, TypeVarTuple, Unpack

QUIET: Final = 0.002
"""Seconds without an event after which the clock jumps: longer than the loopback takes."""
_AT_WORK: Final = frozenset({"R", "D"})
"""States of a thread: proc_pid_stat(5)."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _OtherThreads:
    """Those of this process but the one that asks."""

    def __init__(self) -> None:
        self._ran: dict[int, str] = {}
        """By thread: nanoseconds on a core."""

    def are_at_work(self) -> bool:
        """Whether one runs, waits for a core or for the disk, or has run since the last call.

        A thread that waits for the interpreter's lock looks asleep: that it has run shortly before tells it apart."""
        ran, is_one_at_work = dict[int, str](), False
        for thread in Path("/proc/self/task").iterdir():
            number = int(thread.name)
            if number == threading.get_native_id():
                continue
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                state = (thread / "stat").read_text().rpartition(")")[2].split()[0]
                ran[number] = (thread / "schedstat").read_text().split()[0]  # after it: it may run in between
                is_one_at_work |= state in _AT_WORK or ran[number] != self._ran.get(number)
        self._ran = ran
        return is_one_at_work


class _Selector(selectors.DefaultSelector):
    """Waits shortly, and skips the rest of a wait that nothing ended."""

    def __init__(self) -> None:
        super().__init__()
        self.jumps = False
        self.skipped = 0.0
        self.threads = 0
        """At work for the loop."""
        self._others = _OtherThreads()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if not self.jumps or self.threads or timeout is None or timeout <= QUIET:
            return super().select(timeout)
        found = super().select(QUIET)
        if found or self._others.are_at_work():
            return found
        found = super().select(0)  # from a thread that has ended since
        if not found:
            self.skipped += timeout - QUIET
        return found


class JumpingLoop(asyncio.SelectorEventLoop):
    """See the module."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        """Seconds, as real time and the jumps have moved it."""
        return super().time() + self._clock.skipped

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """As any loop does, counted."""
        self._clock.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_ended)
        return future

    def _thread_ended(self, _future: asyncio.Future[T]) -> None:
        self._clock.threads -= 1

    def advance(self, seconds: float) -> None:
        """Moves the clock at once."""
        self._clock.skipped += seconds

    @contextmanager
    def jumping(self) -> Iterator[None]:
        """Within its block the clock jumps."""
        self._clock.jumps = True
        try:
            yield
        finally:
            self._clock.jumps = False
