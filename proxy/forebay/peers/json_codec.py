"""Frozen dataclasses as JSON documents, and back. The annotations are the schema; nothing is registered.

    dataclass      an object, its fields in their order        Mapping    an object
    NamedTuple     an array                                    bytes      text, in hexadecimal
    tuple, list    an array                                    X | None   X, or null
    Head           as between peers (peer_codec), which is faster: a page of a listing has a thousand

A field with `init=False` is derived from the others: it is written, and computed again when the document is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NewType, Union, get_args, get_origin, get_type_hints

from forebay.core.heads import Head
from forebay.peers.peer_codec import decode_head, encode_head


def to_json(value: object) -> Any:
    """The document of a value, as `json.dumps` accepts it."""
    if isinstance(value, Head):
        return encode_head(value)
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    return value.hex() if isinstance(value, bytes) else value


def from_json(kind: Any, document: Any) -> Any:
    """The value of type `kind` that the document describes. Raises KeyError, TypeError, ValueError if it is none.

    Fields that `kind` lacks are ignored.
    """
    if kind is Head:
        return decode_head(document)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in {Union, UnionType}:
        [wanted] = (each for each in inner if each is not NoneType)
        return None if document is None else from_json(wanted, document)
    if origin is Literal:
        if document not in inner:
            raise ValueError(f"{document!r} is not one of {inner}")
        return document
    if origin in {list, tuple, Sequence}:
        return _array(kind, inner, document)
    if origin in {dict, Mapping}:
        return {key: from_json(inner[1], each) for key, each in document.items()}
    if is_dataclass(kind):
        return _dataclass(kind, document)
    if isinstance(kind, NewType):
        return kind(from_json(kind.__supertype__, document))
    return _scalar(kind, document)


def _dataclass(kind: Any, document: Any) -> Any:
    return kind(**{name: from_json(hint, document[name]) for name, hint in _init_fields(kind)})


def _array(kind: Any, inner: tuple[Any, ...], document: Any) -> Any:
    if not isinstance(document, list):
        raise TypeError(f"no array: {type(document).__name__}")
    if get_origin(kind) is tuple and inner[1:] != (...,):
        return tuple(from_json(wanted, each) for wanted, each in zip(inner, document, strict=True))
    values = (from_json(inner[0], each) for each in document)
    return tuple(values) if get_origin(kind) is tuple else list(values)


def _scalar(kind: Any, document: Any) -> Any:
    if kind in {Any, object}:
        return document
    if kind in {None, NoneType}:
        return None
    if kind is bytes:
        return bytes.fromhex(document)
    if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
        hints = _hints(kind).values()
        return kind(*(from_json(hint, each) for hint, each in zip(hints, document, strict=True)))
    if kind is float and type(document) is int:
        return float(document)
    if type(document) is not kind:  # exactly: True is an int to isinstance
        raise TypeError(f"{type(document).__name__} in place of {kind}")
    return document


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _init_fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = _hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind) if field.init)
