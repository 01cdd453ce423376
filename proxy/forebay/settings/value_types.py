"""Value types: how each type of setting is read from TOML, and from the text of a variable or a flag.

A reader takes a TOML value and returns it in the program's units, or raises ValueError with the allowed values. The
error never repeats the value: it may be a secret.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final, NoReturn, cast

from forebay.core.names import is_bucket_name
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
from forebay.settings.freshness_values import FRESHNESS_ALLOWED, LISTING_ALLOWED, parse_freshness, parse_listing
from forebay.settings.path_checks import PATHS_ALLOWED, path_problem
from forebay.settings.secret import Secret


class RawText(str):
    """A value from the environment or a flag, not typed yet: `8` may be a number, `a,b` a list."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ValueType:
    """One type of setting."""

    name: str
    """The name of the type in the documentation."""
    allowed: str
    read: Callable[[Any], Any]
    """Reads a TOML value. Raises ValueError, whose text may be more precise than `allowed`."""
    from_text: Callable[[str], object] = str
    """Turns text into the TOML type; text of another form is returned unchanged."""
    format: Callable[[Any], str] = str
    """Writes a value, for messages about bounds."""
    conceals: Callable[[str], bool] = lambda _: False
    """Whether a refused value may hold a secret, so that no message repeats it."""


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
        # Exactly this type: bool is a subclass of int in Python, not in TOML.
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


def _read_patterns(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
        raise ValueError(PATTERNS_ALLOWED)
    return tuple(_read_pattern(text) for text in cast("list[str]", value))


def _read_path(text: str) -> str:
    return text if PurePosixPath(text).is_absolute() and "\0" not in text else _refuse(_FILES_ALLOWED)


def _read_log(text: str) -> str:
    if text in LOG_STREAMS:
        return text
    try:
        return _read_path(text)
    except ValueError:
        raise ValueError(_LOGS_ALLOWED) from None


def _read_words(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) and _WORD.fullmatch(word) for word in value):
        raise ValueError(f"a list of words of {_WORDS_ALLOWED}")
    return tuple(cast("list[str]", value))


def _read_buckets(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or not all(isinstance(name, str) for name in value):
        raise ValueError(BUCKETS_ALLOWED)
    for name in cast("list[str]", value):
        if not is_bucket_name(name.replace("?", "a")):
            raise ValueError(BUCKETS_ALLOWED)
        if problem := path_problem(f"{name}/**"):
            raise ValueError(f"{BUCKETS_ALLOWED} ({problem})")
    return tuple(cast("list[str]", value))


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
        if not is_domain(name) or not isinstance(bucket, str) or not is_bucket_name(bucket):
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


def choice(*options: str) -> ValueType:
    """The type of a setting that is one of `options`."""
    allowed = " or ".join(f'"{option}"' for option in options)

    def parse(text: str) -> str:
        return text if text in options else _refuse(allowed)

    return ValueType(allowed, allowed, _text(allowed, parse))


def choices(*options: str) -> ValueType:
    """The type of a setting that is a list of one or more of `options`."""
    allowed = "a list of one or more of " + ", ".join(f'"{option}"' for option in options)

    def read(value: object) -> frozenset[str]:
        if not isinstance(value, list) or not value or not all(item in options for item in value):
            raise ValueError(allowed)
        return frozenset(value)

    return ValueType("list of " + ", ".join(f'"{option}"' for option in options), allowed, read, _list_of_text)


def or_off(value_type: ValueType) -> ValueType:
    """A value of that type, or "off", which reads as None."""
    allowed = f'{value_type.allowed}; or "off"'

    def read(value: object) -> object:
        try:
            return None if value == "off" else value_type.read(value)
        except ValueError:
            raise ValueError(allowed) from None

    return ValueType(f'{value_type.name} or "off"', allowed, read, value_type.from_text, value_type.format)


def or_auto(value_type: ValueType) -> ValueType:
    """A value of that type, or "auto", which reads as 0: Forebay chooses."""

    def read(value: object) -> object:
        try:
            return 0 if value == "auto" else value_type.read(value)
        except ValueError:
            raise ValueError(f'{value_type.allowed} or "auto"') from None

    return ValueType(
        f'{value_type.name} or "auto"', f'{value_type.allowed} or "auto"', read, value_type.from_text, value_type.format
    )


CNAMES_ALLOWED: Final = 'a table of host names to names of buckets, such as { "data.example.com" = "bucket" }'
_SECRETS_ALLOWED: Final = "a string that is not empty"
_FILES_ALLOWED: Final = "an absolute path"
LOG_STREAMS: Final = frozenset({"stdout", "stderr", "off"})
_LOGS_ALLOWED: Final = '"stdout", "stderr", "off" or the absolute path of a file'
_ACCESS_KEYS_ALLOWED: Final = "1 to 128 visible ASCII characters without / , and ="
_VARIABLES_ALLOWED: Final = "the name of an environment variable"
_WORD: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
BUCKETS_ALLOWED: Final = (
    'a list of names of buckets, such as ["datasets", "logs-*"]: `*` any characters, `?` one character, no key'
)
PATTERNS_ALLOWED: Final = 'a list of patterns over bucket/key, such as ["**/.metadata", "**/latest*"]'
_WORDS_ALLOWED: Final = "letters, digits, dots, dashes and underscores"
_PROFILES_ALLOWED: Final = "the name of a profile"

BOOLEAN: Final = ValueType("true or false", "true or false", _typed(bool, "true or false"), _boolean_of_text)
INTEGER: Final = ValueType("integer", "a whole number", _typed(int, "a whole number"), _integer_of_text)
SIZE: Final = ValueType("size", SIZES_ALLOWED, _read_size, _integer_of_text, format_size)
DURATION: Final = ValueType(
    "duration", DURATIONS_ALLOWED, _text(DURATIONS_ALLOWED, parse_duration), format=format_duration
)
ADDRESS: Final = ValueType("host:port", ADDRESSES_ALLOWED, _text(ADDRESSES_ALLOWED, parse_address))
ENDPOINT: Final = ValueType(
    "URL", ENDPOINTS_ALLOWED, _text(ENDPOINTS_ALLOWED, parse_endpoint), conceals=lambda url: "@" in url
)
DOMAINS: Final = ValueType("list of domain names", f"a list of {DOMAINS_ALLOWED}", _read_domains, _list_of_text)
CNAMES: Final = ValueType("table of hosts to buckets", CNAMES_ALLOWED, _read_cnames, _cnames_of_text)
FILE: Final = ValueType("path", _FILES_ALLOWED, _text(_FILES_ALLOWED, _read_path))
MODE: Final = ValueType(
    "permissions",
    "permissions in octal, such as 0660",
    _matching(r"0?[0-7]{3}", "permissions in octal, such as 0660"),
)
LOG: Final = ValueType('path, "stdout", "stderr" or "off"', _LOGS_ALLOWED, _text(_LOGS_ALLOWED, _read_log))
BUCKETS: Final = ValueType("list of patterns of bucket names", BUCKETS_ALLOWED, _read_buckets, _list_of_text)
WORD: Final = ValueType("word", _WORDS_ALLOWED, _matching(_WORD.pattern, _WORDS_ALLOWED))
NAMES: Final = ValueType("list of words", f"a list of words of {_WORDS_ALLOWED}", _read_words, _list_of_text)
PROFILE: Final = ValueType("name", _PROFILES_ALLOWED, _matching(r"[^\x00-\x1f\x7f]{1,256}", _PROFILES_ALLOWED))
VARIABLE: Final = ValueType(
    "variable name", _VARIABLES_ALLOWED, _matching(r"[A-Za-z_][A-Za-z0-9_]{0,255}", _VARIABLES_ALLOWED)
)
ACCESS_KEY: Final = ValueType(
    "access key", _ACCESS_KEYS_ALLOWED, _matching(r"[!-+\--.0-<>-~]{1,128}", _ACCESS_KEYS_ALLOWED)
)
SECRET: Final = ValueType("secret", _SECRETS_ALLOWED, _read_secret, conceals=lambda _: True)
PATTERNS: Final = ValueType("list of patterns", PATTERNS_ALLOWED, _read_patterns, _list_of_text)
PATTERN: Final = ValueType("pattern", PATHS_ALLOWED, _text(PATHS_ALLOWED, _read_pattern))
FRESHNESS: Final = ValueType("freshness", FRESHNESS_ALLOWED, _text(FRESHNESS_ALLOWED, parse_freshness))
LISTING: Final = ValueType("listing", LISTING_ALLOWED, _text(LISTING_ALLOWED, parse_listing))
