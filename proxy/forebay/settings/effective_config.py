"""The effective configuration as a document in the form of the file, without secrets; and how two configurations
differ."""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass

from forebay.settings.addresses import Address
from forebay.settings.freshness_values import Always, For, Immutable, format_freshness
from forebay.settings.model import Settings
from forebay.settings.redaction import REDACTED
from forebay.settings.secret import Secret


def effective(settings: Settings) -> dict[str, object]:
    """Tables and keys as in the file; sizes in bytes, durations in seconds."""
    document = _plain(settings)
    assert isinstance(document, dict)  # noqa: S101 # Settings is a dataclass
    return document


def changed(old: Settings, new: Settings) -> list[str]:
    """The paths of what differs: `memory.size`, `rules`."""
    return list(_changed("", old, new))


def _plain(value: object) -> object:
    match value:
        case Secret():
            return REDACTED
        case Address():
            return str(value)
        case Immutable() | For() | Always():
            return format_freshness(value)
        case frozenset():
            return sorted(_plain(one) for one in value)  # type: ignore[type-var] # words, which have an order
        case Mapping():
            return dict(value)
        case tuple():
            return [_plain(one) for one in value]
        case _ if is_dataclass(value):
            plain = {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
            return {name: one for name, one in plain.items() if one is not None}
        case _:
            return value


def _changed(path: str, old: object, new: object) -> Iterator[str]:
    if old == new:
        return
    # Tables are told by their keys; lists of tables, and what is one value in the file, as a whole.
    nested = is_dataclass(old) and type(old) is type(new) and path.count(".") == 0 and not isinstance(old, Address)
    if not nested or not is_dataclass(old):
        yield path
        return
    for field in fields(old):
        inner = f"{path}.{field.name}" if path else field.name
        yield from _changed(inner, getattr(old, field.name), getattr(new, field.name))
