"""Functions of the C library: their arguments, their errors, and those that it lacks."""

import ctypes
import errno
from pathlib import Path

from forebay.core.c_library import c_function


def test_a_function_is_called_with_its_types() -> None:
    labs = c_function("labs", ctypes.c_long)
    assert labs is not None
    assert labs(-7) == 7


def test_a_failed_call_leaves_its_error(tmp_path: Path) -> None:
    rmdir = c_function("rmdir", ctypes.c_char_p)
    assert rmdir is not None
    assert rmdir(bytes(tmp_path / "absent")) == -1
    assert ctypes.get_errno() == errno.ENOENT


def test_a_function_that_the_library_lacks_is_none() -> None:
    assert c_function("no_such_function") is None


def test_two_callers_have_types_of_their_own() -> None:
    narrow, wide = c_function("labs", ctypes.c_int8), c_function("labs", ctypes.c_long)
    assert narrow is not None
    assert wide is not None
    assert (narrow(-129), wide(-129)) == (127, 129)
