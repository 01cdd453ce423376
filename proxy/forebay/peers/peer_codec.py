"""The peer codec: heads, names and failures as documents, and back.

A document that does not fit raises PeerUnavailable, which ends the connection (peers.frames).
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from forebay.core.byte_ranges import Span
from forebay.core.errors import (
    ForebayError,
    OrderRefused,
    OriginBroken,
    OriginCredentialFault,
    OriginError,
    OriginRefused,
    OriginUnfit,
    OriginUnreachable,
    PeerUnavailable,
    Throttled,
    VersionChanged,
)
from forebay.core.heads import Head, HeaderPairs, ObjectFacts
from forebay.core.names import Generation, ObjectName, Version
from forebay.origin.reads.read_outcomes import ErrorResponse
from forebay.peers.frames import Document

_T = TypeVar("_T")

_PLAIN: Final = (OriginUnreachable, OriginBroken, OriginUnfit, VersionChanged)
_BY_NAME: Final = {kind.__name__: kind for kind in _PLAIN}


def decode(decoder: Callable[[], _T]) -> _T:
    """Returns the result of `decoder`. Raises PeerUnavailable for a malformed document."""
    try:
        return decoder()
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise PeerUnavailable(f"a document that does not fit: {error!r}") from error


def encode_name(name: ObjectName) -> list[str]:
    """Returns an object's name as a document."""
    return [name.bucket, name.key]


def encode_names(names: Iterable[ObjectName]) -> Document:
    """Returns objects' names as a document."""
    return {"names": [encode_name(name) for name in names]}


def decode_name(document: Any) -> ObjectName:
    """Returns the object's name of a document."""
    bucket, key = document
    return ObjectName(_text(bucket), _text(key))


def encode_span(span: Span | None) -> list[int] | None:
    """Returns a span as a document."""
    return list(span) if span is not None else None


def decode_span(document: Any) -> Span:
    """Returns the span of a document. Raises ValueError for bounds out of order."""
    start, stop = document
    span = Span(_integer(start), _integer(stop))
    if not 0 <= span.start <= span.stop:
        raise ValueError(f"no span: {span}")
    return span


def encode_head(head: Head) -> Document:
    """Returns a head as a document."""
    facts = head.facts
    return {
        "etag": facts.version.etag,
        "version": facts.version.version_id,
        "size": facts.size,
        "modified": facts.last_modified,
        "headers": facts.headers,
        "checksums": facts.checksums_known,
        "block": head.block_size,
        "generation": head.generation.hex(),
        "validated": head.validated_at,
        "by_id": head.by_id,
    }


def decode_head(document: Any) -> Head:
    """Returns the head of a document. Raises ValueError for impossible sizes."""
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


def encode_error_response(refused: ErrorResponse | OriginRefused) -> Document:
    """Returns an error response of the origin as a document."""
    return {"status": refused.status, "headers": refused.headers, "body": refused.body.hex()}


def decode_error_response(document: Any) -> ErrorResponse:
    """Returns the error response of a document."""
    return ErrorResponse(_integer(document["status"]), _pairs(document["headers"]), bytes.fromhex(document["body"]))


def encode_failure(failure: ForebayError) -> Document:
    """Returns a failure as a document, for the calling worker to fail with the same."""
    match failure:
        case OriginRefused():
            return {"failure": "OriginRefused", **encode_error_response(failure)}
        case OriginCredentialFault(reason=reason, message=message):
            return {"failure": "OriginCredentialFault", "reason": reason, "message": message}
        case OriginError(reason=reason):
            kind = next((name for name, kind in _BY_NAME.items() if isinstance(failure, kind)), "OriginBroken")
            return {"failure": kind, "reason": reason}
        case Throttled():
            return {"failure": "Throttled", "reason": str(failure)}
        case OrderRefused(code=code):
            return {"failure": "OrderRefused", "code": code, "reason": str(failure)}
        case _:
            return {"failure": "OriginBroken", "reason": str(failure)}


def decode_failure(document: Document) -> ForebayError | None:
    """Returns the failure of a document; None: it has none."""
    kind = document.get("failure")
    if kind is None:
        return None
    if kind == "OriginRefused":
        refused = decode(lambda: decode_error_response(document))
        return OriginRefused(refused.status, refused.headers, refused.body)
    reason = str(document.get("reason"))
    if kind == "Throttled":
        return Throttled(reason)
    if kind == "OrderRefused":
        return OrderRefused(str(document.get("code")), reason)
    if kind == "OriginCredentialFault":
        return OriginCredentialFault(reason, str(document.get("message")))
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
    pairs = tuple([(name, text) for name, text in value])
    if not all([isinstance(name, str) and isinstance(text, str) for name, text in pairs]):  # noqa: C419 # no generator
        raise TypeError("a header that is no text")
    return pairs
