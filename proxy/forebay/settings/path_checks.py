"""The syntax of paths in rules and grants, and the mistakes that are refused.

A path is a pattern over `bucket/key`; forebay.policy.path_patterns matches it.
"""

import re
from typing import Final

PATHS_ALLOWED: Final = (
    "a pattern over bucket/key, such as datasets/** or logs-*/2026/**.json: "
    "`*` within one segment, `**` across segments, `?` one character"
)
MAX_PATH_CHARACTERS: Final = 2048  # a bucket, a slash and the longest key, with room for wildcards

_SCHEME: Final = re.compile(r"(?:s3|s3a|s3n|oss|https?)://", re.IGNORECASE)
_TOO_MANY_STARS: Final = re.compile(r"\*{3}")

_SHELL_WILDCARD: Final = re.compile(r"\[[^/\[\]]+\]|\{[^/{}]*,[^/{}]*\}")


def path_warning(path: str) -> str | None:
    """Why `path` probably matches something else than was meant, or None."""
    if found := _SHELL_WILDCARD.search(path):
        return f"{found[0]} stands for itself: the wildcards are `*`, `**` and `?`"
    return None


def path_problem(path: str) -> str | None:
    """Why `path` can't be a pattern, or None if it can."""
    if not path:
        return "it is empty"
    if len(path) > MAX_PATH_CHARACTERS:
        return f"it is longer than {MAX_PATH_CHARACTERS} characters"
    if "\0" in path:
        return "it contains a NUL"
    if _TOO_MANY_STARS.search(path):
        return "three stars in a row mean nothing"
    if path.startswith("/"):
        return "it starts with a slash, which no bucket does"
    if scheme := _SCHEME.match(path):
        return f"it is a URL, and matches nothing; write {path[scheme.end() :]}"
    if "**" not in path and not path.partition("/")[2]:
        return f"it matches no object; for everything in a bucket write {path.rstrip('/')}/**"
    return None
