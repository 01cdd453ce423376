"""Heads, names and failures as documents, and back. What doesn't fit raises PeerUnavailable: see frames."""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from forebay.core.byte_ranges import Span
from forebay.core.errors import (
    ForebayError,
    OriginBroken,
    OriginError,
    OriginRefused,
    OriginUnfit,
    OriginUnreachable,
    Throttled,
    VersionChanged,
)
from forebay.core.heads import Head, HeaderPairs, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.origin.read_outcomes import ErrorResponse
from forebay.peers.frames import Document, PeerUnavailable

_T = TypeVar("_T")

_PLAIN: Final = (OriginUnreachable, OriginBroken, OriginUnfit, VersionChanged)
_BY_NAME: Final = {kind.__name__: kind for kind in _PLAIN}


def decode(decoder: Callable[[], _T]) -> _T:
    """What a reading of a document gives; PeerUnavailable if the document is not as it should be."""
    try:
        return decoder()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PeerUnavailable(f"a document that doesn't fit: {error!r}") from error


def encode_name(name: ObjectName) -> list[str]:
    return [name.bucket, name.key]


def encode_names(names: Iterable[ObjectName]) -> Document:
    return {"names": [encode_name(name) for name in names]}


def decode_name(document: Any) -> ObjectName:
    bucket, key = document
    return ObjectName(_text(bucket), _text(key))


def encode_span(span: Span | None) -> list[int] | None:
    return list(span) if span is not None else None


def decode_span(document: Any) -> Span:
    start, stop = document
    span = Span(_integer(start), _integer(stop))
    if not 0 <= span.start <= span.stop:
        raise ValueError(f"no span: {span}")
    return span


def encode_head(head: Head) -> Document:
    facts = head.facts
    return {
        "etag": facts.version.etag,
        "version": facts.version.version_id,
        "size": facts.size,
        "modified": facts.last_modified,
        "headers": facts.headers,
        "checksums": facts.checksums_told,
        "block": head.block_size,
        "generation": head.generation.hex(),
        "validated": head.validated_at,
        "by_id": head.by_id,
    }


def decode_head(document: Any) -> Head:
    version = Version(_text(document["etag"]), None if document["version"] is None else _text(document["version"]))
    facts = ObjectFacts(
        version,
        _integer(document["size"]),
        _text(document["modified"]),
        _pairs(document["headers"]),
        document["checksums"] is True,
    )
    block = _integer(document["block"])
    if block < 1 or facts.size < 0:
        raise ValueError("no head")
    generation = Generation(bytes.fromhex(document["generation"]))
    return Head(facts, block, generation, float(document["validated"]), document["by_id"] is True)


def encode_refusal(refused: ErrorResponse | OriginRefused) -> Document:
    return {"status": refused.status, "headers": refused.headers, "body": refused.body.hex()}


def decode_refusal(document: Any) -> ErrorResponse:
    return ErrorResponse(_integer(document["status"]), _pairs(document["headers"]), bytes.fromhex(document["body"]))


def encode_failure(failure: ForebayError) -> Document:
    """What went wrong, so that the other worker fails with the same."""
    match failure:
        case OriginRefused():
            return {"failure": "OriginRefused", **encode_refusal(failure)}
        case OriginError(reason=reason):
            kind = next((name for name, kind in _BY_NAME.items() if isinstance(failure, kind)), "OriginBroken")
            return {"failure": kind, "reason": reason}
        case Throttled():
            return {"failure": "Throttled", "reason": str(failure)}
        case _:
            return {"failure": "OriginBroken", "reason": str(failure)}


def decode_failure(document: Document) -> ForebayError | None:
    """The failure that a document tells; None if it tells none."""
    kind = document.get("failure")
    if kind is None:
        return None
    if kind == "OriginRefused":
        refused = decode(lambda: decode_refusal(document))
        return OriginRefused(refused.status, refused.headers, refused.body)
    reason = str(document.get("reason"))
    if kind == "Throttled":
        return Throttled(reason)
    return _BY_NAME.get(str(kind), OriginBroken)(reason)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"no text: {type(value).__name__}")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"no number: {type(value).__name__}")
    return value


def _pairs(value: Any) -> HeaderPairs:
    return tuple((_text(name), _text(text)) for name, text in value)
