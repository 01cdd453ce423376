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
import os
import selectors
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from typing import Final, TypeVar, TypeVarTuple, Unpack

QUIET: Final = 0.002
"""Seconds without an event after which the clock jumps: longer than the loopback takes."""
_AT_WORK: Final = frozenset({b"R", b"D"})
"""States of a thread: proc_pid_stat(5)."""
_THREADS: Final = "/proc/self/task"
_LONGEST: Final = 1024
"""Bytes of a file of proc(5)."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def _content(path: str) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _LONGEST)
    finally:
        os.close(file)


class _OtherThreads:
    """Those of this process but the one that asks."""

    def __init__(self) -> None:
        self._ran: dict[int, bytes] = {}
        """By thread: nanoseconds on a core."""

    def are_at_work(self) -> bool:
        """Whether one runs, waits for a core or for the disk, or has run since the last call.

        A thread that waits for the interpreter's lock looks asleep: that it has run shortly before tells it apart."""
        ran, is_one_at_work = dict[int, bytes](), False
        for name in os.listdir(_THREADS):  # noqa: PTH208 # pathlib took two thirds of the time of an hour that is skipped
            number = int(name)
            if number == threading.get_native_id():
                continue
            with suppress(FileNotFoundError, ProcessLookupError):  # it has ended
                state = _content(f"{_THREADS}/{name}/stat").rpartition(b")")[2].split(None, 1)[0]
                # After it: it may run in between.
                ran[number] = _content(f"{_THREADS}/{name}/schedstat").split(None, 1)[0]
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
