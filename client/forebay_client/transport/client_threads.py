"""The threads of one client: parallel reads and parts of uploads.

From the moment at which the main thread has ended, the interpreter takes no work for pools of threads, though other
threads and `atexit` handlers go on. What a client is asked for by these is done in their own thread, one after the
other: a checkpoint that is saved at the end is saved.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_REFUSED: Final = "cannot schedule new futures"
"""The start of CPython's message when the pool, or the interpreter, is shut down."""


class ClientThreads(ThreadPoolExecutor):
    """See the module."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Runs a function in a thread; in this one, before it returns, where no other can be had."""
        try:
            return super().submit(fn, *args, **kwargs)
        except RuntimeError as error:
            if not str(error).startswith(_REFUSED):  # a thread did not start: the work is queued, and may be done yet
                raise
            done = Future[T]()
            try:
                done.set_result(fn(*args, **kwargs))
            except Exception as failure:  # the future's
                done.set_exception(failure)
            return done
