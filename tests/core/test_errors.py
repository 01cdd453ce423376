"""The error tree: every error is in it, and the drawing at the top of the module is the tree."""

import builtins
import re
from pathlib import Path
from typing import Final

from forebay.core import errors
from forebay.core.errors import ForebayError, SettingsError, SettingsErrors

PACKAGE: Final = Path(errors.__file__).parents[1]
ELSEWHERE: Final = {
    "AdminRefusal": "a response of the admin port, which has a form of its own",
    "ArchiveRefused": "carries the answer to the read of an archive, within the batch that asked for it",
    "ConnectionFault": "carries an OriginError within the room that translates foreign errors",
    "UnknownReads": "asks the sending worker for the names of a batch of reads, within the room of the peers",
    "UploadRefused": "carries the outcome of a refused step to whoever settles the write, within the room of writes",
}
"""Public errors that stand outside the tree, and why."""


def tree_of(base: type[ForebayError]) -> list[tuple[int, str]]:
    """Depth and name of each class of errors.py below `base`."""
    found = []
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            found += [(1, child.__name__), *((depth + 1, name) for depth, name in tree_of(child))]
    return found


def drawn() -> list[tuple[int, str]]:
    """Depth and name of each line of the drawing."""
    lines = re.findall(r"^ {4}([│ ]*)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE)
    return [(len(indent) // 4 + 1, name) for indent, name in lines]


def test_the_drawing_is_the_tree() -> None:
    assert sorted(drawn()) == sorted(tree_of(ForebayError))


def test_every_public_error_is_in_the_tree() -> None:
    bases = {name for name in dir(builtins) if isinstance(getattr(builtins, name), type)}
    exceptions = {name for name in bases if issubclass(getattr(builtins, name), BaseException)}
    strays = {
        name
        for file in PACKAGE.rglob("*.py")
        for name, bases in re.findall(r"^ *class ([A-Za-z]\w*)\(([^)]*)\)", file.read_text(), re.MULTILINE)
        if exceptions.intersection(re.findall(r"\w+", bases))
    }
    assert strays - {"ForebayError"} == set(ELSEWHERE)


def test_a_refused_configuration_shows_every_problem() -> None:
    refused = SettingsErrors([SettingsError("memory.size", "x", "a size"), SettingsError("ssd.path", None, "a path")])
    assert str(refused) == "memory.size: got 'x', allowed: a size\nssd.path: must be given: a path"
    assert (refused.where, refused.value, refused.allowed) == ("memory.size", "x", "a size")
