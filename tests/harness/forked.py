"""A real fork, as PyTorch's DataLoader makes them: what a function returns in the child.

assert in_a_fork(lambda: client.get("b", "k")) == b"..."
"""

import os
import pickle
import warnings
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
FORKS_WITH_THREADS = "-Wignore:This process:DeprecationWarning"
"""For a program that forks: from 3.12 on the interpreter warns where threads run, which is the case that is tested."""


def in_a_fork(run: Callable[[], T]) -> T:
    """The result of `run` in a child. An exception there is raised here."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # From 3.12 on: threads are running. That is the case that is tested.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            try:
                outcome = pickle.dumps((True, run()))
            except BaseException as error:  # the parent raises it
                outcome = pickle.dumps((False, repr(error)))
            os.close(reader)
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(outcome)
        finally:
            os._exit(0)  # nothing of the parent's is closed or flushed
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        content = pipe.read()
    os.waitpid(child, 0)
    assert content, "the child has ended without a result"
    succeeded, result = pickle.loads(content)
    assert succeeded, result
    return result  # type: ignore[no-any-return] # pickled above
