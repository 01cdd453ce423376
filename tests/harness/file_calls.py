"""The calls by which this process changes files, each a point with a name: `before replace jobs/state/job_store`,
`after fsync storage/run_record`. The name is that of the module of Forebay that makes the call, or has a library make
it. So are calls that open files, in modules that change some.

    interpreter ──each call of a C function──> FileCalls ──point──> a function, which may kill the process, or fail it

No code of the product is changed: the interpreter reports calls (sys.setprofile), in threads that begin later as well.
An error that `at` raises before a call is raised in place of the call; its thread reports no call from then on.

https://docs.python.org/3/library/sys.html#sys.setprofile
"""

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import BuiltinFunctionType, FrameType
from typing import Any, Final

import lmdb

import forebay
from forebay.jobs.plans.plan_files import exchange_names
from harness.changed_files import OPENING

_ROOT: Final = str(Path(forebay.__file__).parent) + "/"
_POSIX: Final = frozenset(
    {
        *("ftruncate", "truncate", "posix_fallocate", "pwrite", "pwritev", "write", "writev", "fsync", "fdatasync"),
        *("link", "mkdir", "open", "remove", "rename", "replace", "rmdir", "symlink", "unlink"),
    }
)
_OF_FILES: Final = frozenset({"write", "flush", "close", "truncate", "__exit__"})
_OF_TRANSACTIONS: Final = frozenset({"commit", "__exit__"})
"""Of LMDB, by which the index is written."""
_THROUGH: Final = ("storage/durable_files", "storage/file_sums", "storage/journal/journal_files")
"""Modules that make calls for others: the point has the name of their caller."""
_ELSEWHERE: Final = ("server/http", "server/shared_memory", "server/telemetry", "peers/", "core/")
"""What these write to are sockets, memory and logs."""


class FileCalls:
    """Calls `at(point)` at each point, from `watch` on."""

    def __init__(self, at: Callable[[str], None]) -> None:
        self._at = at

    def watch(self) -> None:
        """Begins, in this thread and those that begin later."""
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watches this thread, and those that begin meanwhile."""
        self.watch()
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        if event in {"c_call", "c_return"}:
            verb, is_before = _verb_of(called), event == "c_call"
        elif event in {"call", "return"} and frame.f_code is exchange_names.__code__:  # which ctypes calls, unreported
            verb, is_before = "exchange", event == "call"
        else:
            return
        module = module_of(frame) if verb is not None else None
        if module is not None and (verb != "open" or module in OPENING):
            self._at(f"{'before' if is_before else 'after'} {verb} {module}")


def _verb_of(called: Any) -> str | None:
    """Returns what a call does; None: it changes no file."""
    if not isinstance(called, BuiltinFunctionType):
        return None
    of, name = called.__self__, called.__name__
    match getattr(of, "__name__", ""):
        case "posix":
            return name if name in _POSIX else None
        case "io" | "_io":
            return name if name == "open" else None
    if isinstance(of, lmdb.Transaction):
        return "commit" if name in _OF_TRANSACTIONS else None
    if of is sys.stderr or not isinstance(of, io.FileIO | io.BufferedWriter | io.TextIOWrapper):
        return None
    is_read_only = getattr(of, "mode", "w") in {"r", "rb"}
    return name.replace("__exit__", "close") if name in _OF_FILES and not is_read_only else None


def module_of(frame: FrameType | None) -> str | None:
    """Returns the module of Forebay that makes a call, or has a library make it; None: no file is changed so."""
    while frame is not None:
        module = _forebay_module(frame.f_code.co_filename)
        if module is not None and module not in _THROUGH:
            return None if module.startswith(_ELSEWHERE) else module
        frame = frame.f_back
    return None


@cache
def _forebay_module(file: str) -> str | None:
    return file.removeprefix(_ROOT).removesuffix(".py") if file.startswith(_ROOT) else None
