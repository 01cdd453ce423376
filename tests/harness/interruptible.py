"""Processes that Ctrl-C is to reach, however the test run was started.

A shell without job control has what it runs in the background ignore SIGINT (POSIX, Shell Command Language, 2.11), and
who is started with a signal ignored goes on ignoring it; Python then installs no handler, so no KeyboardInterrupt.
A handler is not inherited: exec puts the default in its place.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interruptible() -> Iterator[None]:
    """Who is started within takes SIGINT as one started at a terminal does. Of the main thread."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
