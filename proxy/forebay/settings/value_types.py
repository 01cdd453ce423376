"""The kinds of values a setting can have: how each is read from TOML, and from the text of a variable or a flag.

A reader takes what TOML gave and returns the value in the program's own units, or raises ValueError with what is
allowed. It never repeats what it was given: that may be a secret.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, NoReturn, cast

from forebay.core.names import is_bucket
from forebay.core.units import (
    DURATIONS_ALLOWED,
    SIZES_ALLOWED,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)
from forebay.settings.addresses import (
    ADDRESSES_ALLOWED,
    DOMAINS_ALLOWED,
    ENDPOINTS_ALLOWED,
    is_domain,
    parse_address,
    parse_endpoint,
)
from forebay.settings.freshness_values import FRESHNESS_ALLOWED, parse_freshness
from forebay.settings.path_checks import PATHS_ALLOWED, path_problem
from forebay.settings.secret import Secret


class Text(str):
    """A value that came as text, from the environment or a flag: `8` may be a number, `a,b` a list."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of value."""

    name: str
    """As the documentation calls it."""
    allowed: str
    read: Callable[[Any], Any]
    """From what TOML gives. Raises ValueError; its text may say more than `allowed`."""
    of_text: Callable[[str], object] = str
    """From text to what TOML would have given; a text that is no such thing is returned as it is."""
    show: Callable[[Any], str] = str
    """A value as one would write it; for bounds."""
    secret: bool = False


def _boolean_of_text(text: str) -> object:
    return {"true": True, "false": False}.get(text, text)


def _integer_of_text(text: str) -> object:
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text, re.ASCII) else text


def _list_of_text(text: str) -> object:
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [word.strip() for word in text.split(",")] if text.strip() else []


def _typed(wanted: type, allowed: str) -> Callable[[Any], Any]:
    def read(value: object) -> object:
        # Exactly: True is an int to Python, and to nobody else.
        if type(value) is not wanted:
            raise ValueError(allowed)
        return value

    return read


def _text(allowed: str, parse: Callable[[str], object]) -> Callable[[Any], Any]:
    def read(value: object) -> object:
        if not isinstance(value, str):
            raise ValueError(allowed)
        return parse(str(value))

    return read


def _matching(expression: str, allowed: str) -> Callable[[Any], Any]:
    compiled = re.compile(expression, re.ASCII)

    def parse(text: str) -> str:
        return text if compiled.fullmatch(text) else _refuse(allowed)

    return _text(allowed, parse)


def _refuse(allowed: str) -> NoReturn:
    raise ValueError(allowed)


def _read_size(value: object) -> int:
    if not isinstance(value, (str, int)):
        raise ValueError(SIZES_ALLOWED)
    return parse_size(value)


def _read_secret(value: object) -> Secret:
    if not isinstance(value, str) or not value:
        raise ValueError(_SECRETS_ALLOWED)
    return Secret(str(value))


def _read_pattern(text: str) -> str:
    problem = path_problem(text)
    return text if problem is None else _refuse(f"{PATHS_ALLOWED} ({problem})")


def _read_path(text: str) -> str:
    return text if PurePosixPath(text).is_absolute() and "\0" not in text else _refuse(_FILES_ALLOWED)


def _read_log(text: str) -> str:
    if text in LOG_STREAMS:
        return text
    try:
        return _read_path(text)
    except ValueError:
        raise ValueError(_LOGS_ALLOWED) from None


def _read_domains(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and is_domain(name) for name in value):
        raise ValueError(f"a list of {DOMAINS_ALLOWED}")
    return tuple(cast("list[str]", value))


def _read_cnames(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise ValueError(CNAMES_ALLOWED)
    cnames: dict[str, str] = {}
    for host, bucket in value.items():
        name = str(host).lower().removesuffix(".")
        if not is_domain(name) or not isinstance(bucket, str) or not is_bucket(bucket):
            raise ValueError(CNAMES_ALLOWED)
        if name in cnames:
            raise ValueError(f"{CNAMES_ALLOWED}; each host once")
        cnames[name] = str(bucket)
    return cnames


def _cnames_of_text(text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)
        except ValueError:
            return text
    pairs = [word.partition("=") for word in text.split(",")] if text.strip() else []
    if not all(equals for _, equals, _ in pairs) or len({host.strip() for host, _, _ in pairs}) < len(pairs):
        return text
    return {host.strip(): bucket.strip() for host, _, bucket in pairs}


def choice(*words: str) -> Kind:
    """One of some words."""
    allowed = " or ".join(f'"{word}"' for word in words)

    def parse(text: str) -> str:
        return text if text in words else _refuse(allowed)

    return Kind(allowed, allowed, _text(allowed, parse))


def choices(*words: str) -> Kind:
    """A list of one or more of some words."""
    allowed = "a list of one or more of " + ", ".join(f'"{word}"' for word in words)

    def read(value: object) -> frozenset[str]:
        if not isinstance(value, list) or not value or not all(word in words for word in value):
            raise ValueError(allowed)
        return frozenset(value)

    return Kind("list of " + ", ".join(f'"{word}"' for word in words), allowed, read, _list_of_text)


def or_off(kind: Kind) -> Kind:
    """That kind, or the word "off", which reads as None."""
    allowed = f'{kind.allowed}; or "off"'

    def read(value: object) -> object:
        try:
            return None if value == "off" else kind.read(value)
        except ValueError:
            raise ValueError(allowed) from None

    return Kind(f'{kind.name} or "off"', allowed, read, kind.of_text, kind.show)


def or_auto(kind: Kind) -> Kind:
    """That kind, whose 0 stands for what is found out, which the word "auto" says better."""

    def read(value: object) -> object:
        try:
            return 0 if value == "auto" else kind.read(value)
        except ValueError:
            raise ValueError(f'{kind.allowed} or "auto"') from None

    return Kind(f'{kind.name} or "auto"', f'{kind.allowed} or "auto"', read, kind.of_text, kind.show)


CNAMES_ALLOWED: Final = 'a table of host names to names of buckets, such as { "data.example.com" = "bucket" }'
_SECRETS_ALLOWED: Final = "a string that is not empty"
_FILES_ALLOWED: Final = "an absolute path"
LOG_STREAMS: Final = frozenset({"stdout", "stderr", "off"})
_LOGS_ALLOWED: Final = '"stdout", "stderr", "off" or the absolute path of a file'
_ACCESS_KEYS_ALLOWED: Final = "1 to 128 visible ASCII characters without / , and ="
_VARIABLES_ALLOWED: Final = "the name of an environment variable"
_WORDS_ALLOWED: Final = "letters, digits, dots, dashes and underscores"
_PROFILES_ALLOWED: Final = "the name of a profile"

BOOLEAN: Final = Kind("true or false", "true or false", _typed(bool, "true or false"), _boolean_of_text)
INTEGER: Final = Kind("integer", "a whole number", _typed(int, "a whole number"), _integer_of_text)
SIZE: Final = Kind("size", SIZES_ALLOWED, _read_size, _integer_of_text, format_size)
DURATION: Final = Kind("duration", DURATIONS_ALLOWED, _text(DURATIONS_ALLOWED, parse_duration), show=format_duration)
ADDRESS: Final = Kind("host:port", ADDRESSES_ALLOWED, _text(ADDRESSES_ALLOWED, parse_address))
ENDPOINT: Final = Kind("URL", ENDPOINTS_ALLOWED, _text(ENDPOINTS_ALLOWED, parse_endpoint), secret=True)
DOMAINS: Final = Kind("list of domain names", f"a list of {DOMAINS_ALLOWED}", _read_domains, _list_of_text)
CNAMES: Final = Kind("table of hosts to buckets", CNAMES_ALLOWED, _read_cnames, _cnames_of_text)
FILE: Final = Kind("path", _FILES_ALLOWED, _text(_FILES_ALLOWED, _read_path))
LOG: Final = Kind('path, "stdout", "stderr" or "off"', _LOGS_ALLOWED, _text(_LOGS_ALLOWED, _read_log))
WORD: Final = Kind("word", _WORDS_ALLOWED, _matching(r"[A-Za-z0-9._-]{1,64}", _WORDS_ALLOWED))
PROFILE: Final = Kind("name", _PROFILES_ALLOWED, _matching(r"[^\x00-\x1f\x7f]{1,256}", _PROFILES_ALLOWED))
VARIABLE: Final = Kind(
    "variable name", _VARIABLES_ALLOWED, _matching(r"[A-Za-z_][A-Za-z0-9_]{0,255}", _VARIABLES_ALLOWED)
)
ACCESS_KEY: Final = Kind("access key", _ACCESS_KEYS_ALLOWED, _matching(r"[!-+\--.0-<>-~]{1,128}", _ACCESS_KEYS_ALLOWED))
SECRET: Final = Kind("secret", _SECRETS_ALLOWED, _read_secret, secret=True)
PATTERN: Final = Kind("pattern", PATHS_ALLOWED, _text(PATHS_ALLOWED, _read_pattern))
FRESHNESS: Final = Kind("freshness", FRESHNESS_ALLOWED, _text(FRESHNESS_ALLOWED, parse_freshness))
