"""The effective configuration as a document in the form of the file, without secrets; the difference between two."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Final

from forebay.settings.addresses import ListenAddress
from forebay.settings.freshness_values import AlwaysRevalidate, Immutable, ListingOff, MaxAge, format_freshness
from forebay.settings.model import Settings
from forebay.settings.redaction import REDACTED
from forebay.settings.secret import Secret

_TABLES: Final = {"fetch": "origin"}
"""Fields of Settings that stand in another table of the file."""


def effective_config(settings: Settings) -> dict[str, object]:
    """Tables and keys as in the file; sizes in bytes, durations in seconds, secrets redacted."""
    document = _plain(settings)
    assert isinstance(document, dict)  # noqa: S101 # Settings is a dataclass
    origin = {name: value for name, value in document.get("origin", {}).items() if name not in {"name", "buckets"}}
    document["origin"] = origin | document.pop("fetch")
    return document


def changed_paths(old: Settings, new: Settings) -> list[str]:
    """The paths of settings that differ, such as `memory.size` and `rules`."""
    return list(_changed("", old, new))


def _plain(value: object) -> object:
    match value:
        case Secret():
            return REDACTED
        case ListenAddress():
            return str(value)
        case Immutable() | MaxAge() | AlwaysRevalidate() | ListingOff():
            return format_freshness(value)
        case frozenset():
            return sorted(_plain(item) for item in value)  # type: ignore[type-var] # words, which have an order
        case Mapping():
            return dict(value)
        case tuple():
            return [_plain(item) for item in value]
        case _ if is_dataclass(value):
            plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
            return {name: item for name, item in plain.items() if item is not None}
        case _:
            return value


def _changed(path: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return
    # Tables are compared key by key; lists of tables, and single values of the file, as a whole.
    nested = (
        is_dataclass(old) and type(old) is type(new) and path.count(".") == 0 and not isinstance(old, ListenAddress)
    )
    if not nested or not is_dataclass(old):
        yield path
        return
    for field in fields(old):
        inner = f"{path}.{field.name}" if path else _TABLES.get(field.name, field.name)
        yield from _changed(inner, getattr(old, field.name), getattr(new, field.name))
