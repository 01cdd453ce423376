"""Writes that accept half of what they are given, as on a disk that is nearly full.

    ShortWrite("before pwrite storage/run_record", 0, errno.ENOSPC).install()

The n-th write of a module, from 0, writes half. With an errno, all further writes of the module fail. The interpreter
reports no arguments (harness.file_calls), so functions of `os`, and the files that `open` makes, are replaced; call it
in a process that ends with the test.
"""

import builtins
import inspect
import io
import os
from collections.abc import Callable
from threading import Lock
from types import FrameType
from typing import Any, Final

from harness.file_calls import module_of

_OF_OS: Final = ("write", "writev", "pwrite", "pwritev")


class ShortWrite:
    """See the module. `error`: 0: the further writes succeed."""

    def __init__(self, point: str, nth: int, error: int) -> None:
        _, verb, self._module = point.split()
        self._verb = verb
        self._nth, self._error = nth, error
        self._count = 0
        self._lock = Lock()

    def install(self) -> None:
        """Replaces the functions."""
        for name in _OF_OS:
            setattr(os, name, self._shortened(name, getattr(os, name)))
        builtins.open = io.open = self._opening(io.open)

    def _shortened(self, name: str, write: Callable[..., int]) -> Callable[..., int]:
        def call(fd: int, content: Any, *rest: int) -> int:
            if self._is_short(name):
                pieces = content if name.endswith("v") else [content]
                half = b"".join(bytes(piece) for piece in pieces)
                half = half[: len(half) // 2]
                return write(fd, [half] if name.endswith("v") else half, *rest)
            return write(fd, content, *rest)

        return call

    def _opening(self, opened: Callable[..., Any]) -> Callable[..., Any]:
        is_short = self._is_short

        class ShortFile(io.FileIO):
            def write(self, content: Any) -> int:
                half = memoryview(content).nbytes // 2
                return super().write(memoryview(content)[:half] if is_short("write") else content)

        def call(file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None, *rest: Any) -> Any:
            if set("wax+").isdisjoint(mode) or isinstance(file, int) or module_of(_caller(1)) != self._module:
                return opened(file, mode, buffering, encoding, *rest)
            raw = ShortFile(file, mode.replace("b", "").replace("t", ""))
            if not buffering:
                return raw
            buffered = io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, *rest)

        return call

    def _is_short(self, verb: str) -> bool:
        """Whether this write is the one. Raises OSError for those that follow, if they are to fail."""
        if verb != self._verb or module_of(_caller(2)) != self._module:
            return False
        with self._lock:
            count, self._count = self._count, self._count + 1
        if count > self._nth and self._error:
            raise OSError(self._error, os.strerror(self._error))
        return count == self._nth


def _caller(count: int) -> FrameType | None:
    """Returns the frame so many calls above that of the function that asks."""
    frame = inspect.currentframe()
    for _ in range(count + 1):
        frame = frame.f_back if frame is not None else None
    return frame
