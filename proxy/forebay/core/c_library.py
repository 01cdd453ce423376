"""Functions of the C library that Python's `os` does not have. Some libraries lack some of them: musl, that of macOS.

https://docs.python.org/3/library/ctypes.html
"""

import ctypes
from collections.abc import Callable
from typing import Any

_LIBRARY = ctypes.CDLL(None, use_errno=True)


def c_function(name: str, *arguments: Any) -> Callable[..., int] | None:
    """Returns a function whose result is an int; None: the C library has none of this name. `arguments`: the ctypes of
    its arguments. Where a call fails, `ctypes.get_errno` has the error."""
    try:
        function = _LIBRARY[name]  # an object of its own each time, so the types are the caller's alone
    except AttributeError:
        return None
    function.argtypes = arguments
    return function
