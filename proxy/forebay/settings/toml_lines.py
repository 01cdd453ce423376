"""The lines of a TOML file in which settings stand, for messages: tomllib says none.

    [auth]                       auth                       line 1
    [[auth.keys]]                auth.keys, auth.keys[0]    line 2
    id = "a"                     auth.keys[0].id            line 3
    grants = [                   auth.keys[0].grants        line 4: also of what is within its brackets

Reads files that tomllib accepts. Of others it says some line, and raises nothing. No value is looked at.

https://toml.io/en/v1.0.0
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

_Kind: TypeAlias = Literal["list", "table", "key"]

_PART: Final = r"""(?:[A-Za-z0-9_-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_KEYS: Final = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_STATEMENT: Final = re.compile(
    rf"[ \t]*(?:\[\[[ \t]*(?P<list>{_KEYS})[ \t]*\]\]|\[[ \t]*(?P<table>{_KEYS})[ \t]*\]|(?P<key>{_KEYS})[ \t]*=)"
)
_TOKEN: Final = re.compile(
    r"""
    "{3} (?: \\. | [^\\] )*? "{3,5}   # text of several lines
    | '{3} .*? '{3,5}
    | " (?: \\. | [^"\\\n] )* "
    | ' [^'\n]* '
    | \# [^\n]*
    | .
    """,
    re.DOTALL | re.VERBOSE,
)
_LAST: Final = re.compile(r"(?:\[\d+\]|\.[^.\[\]]+|^[^.\[\]]+)$")
"""The last part of a path."""


def line_of(text: str, path: str) -> int | None:
    """The line, from 1, of the statement that sets `path` (`rules[2].freshness`), else of the innermost list or table
    around it; None: there is none."""
    lines = _setting_lines(text)
    while path and path not in lines:
        shorter = _LAST.sub("", path)
        path = shorter if shorter != path else ""
    return lines.get(path)


def _setting_lines(text: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    lengths: dict[str, int] = {}
    """The number of tables of each list of tables so far."""
    table = ""
    for line, kind, keys in _statements(text):
        path = table if kind == "key" else ""
        parts = [_bare(part) for part in re.findall(_PART, keys)]
        for number, part in enumerate(parts, start=1):
            path = f"{path}.{part}" if path else part
            if kind == "list" and number == len(parts):
                lengths[path] = lengths.get(path, 0) + 1
            lines.setdefault(path, line)
            if path in lengths:
                path = f"{path}[{lengths[path] - 1}]"
                lines.setdefault(path, line)
        if kind != "key":
            table = path
    return lines


def _statements(text: str) -> Iterator[tuple[int, _Kind, str]]:
    """Yields each header and each key: its line, its kind, and the text of the name."""
    position, line = 0, 1
    while position < len(text):
        found = _STATEMENT.match(text, position)
        if found is not None:
            kinds: tuple[_Kind, ...] = ("list", "table", "key")
            yield next((line, kind, found[kind]) for kind in kinds if found[kind])
            position = found.end()
        stop = _end(text, position)
        line += text.count("\n", position, stop)
        position = stop


def _end(text: str, position: int) -> int:
    """Returns the position behind the line end of the statement that goes on at `position`."""
    depth = 0
    for token in _TOKEN.finditer(text, position):
        match token[0]:
            case "[" | "{":
                depth += 1
            case "]" | "}":
                depth -= 1
            case "\n" if depth <= 0:
                return token.end()
            case _:
                pass
    return len(text)


def _bare(part: str) -> str:
    return part[1:-1] if part[0] in "\"'" else part
