"""Header and query filters for forwarding: requests to the origin, and the origin's responses to clients.

Responses lose the headers of one connection (RFC 9110 section 7.6.1), and those that a client would attribute to our
host although they come from the origin: it may be a Forebay as well, whose cache is not ours.

Requests are filtered by an allow-list, because they leave with our signature: a header that some origin obeys and
Forebay does not know (Swift's X-Copy-From, a method override) must not reach it. The origin client writes the
signature's own headers and query, and the headers that describe the framing of an aws-chunked body. The copy source is
encoded anew. A header that the request's Connection header names is forwarded nevertheless: it may be signed, and
Connection is not.

Headers that an origin obeys in addition to S3's (Swift's X-Delete-After) are forwarded only if they were signed, as far
as signatures show it: Version 4 lists the headers that it covers; Version 2 can't cover these, and Swift obeys them in
such requests, too; clients of OSS have none of them.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import compress
from typing import Final

from forebay.core.heads import DURABILITY, DURABLE, HeaderPairs
from forebay.protocol.copy_source import COPY_SOURCE, encode_copy_source, parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures.sigv4 import unsigned_header_error
from forebay.protocol.signatures.verified_signature import Signed, SignedOss, SignedV4

HOP_BY_HOP: Final = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
# These concern the origin's host, not ours.
_ORIGIN_HOST: Final = frozenset({"alt-svc", "set-cookie", "strict-transport-security"})
_OWN: Final = "x-forebay-"
_DECODED_LENGTH: Final = "x-amz-decoded-content-length"

_FORWARDED: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-type",
        DURABILITY,  # the origin may be a Forebay that acknowledges from its journal; others ignore it
        "expires",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
    }
)
# Signature and framing of the client's request; the request to the origin has its own.
_NOT_FORWARDED: Final = frozenset(
    {
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-decoded-content-length",
        "x-amz-s3session-token",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-te",
        "x-amz-trailer",
    }
)
SIGNATURE_QUERY: Final = frozenset(
    {
        "awsaccesskeyid",
        "expires",
        "signature",
        "x-amz-algorithm",
        "x-amz-content-sha256",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
    }
)


def relayed_headers(headers: Headers, *, oss: bool = False) -> HeaderPairs:
    """Returns the headers of an origin's response for the client.

    `oss`: the client speaks OSS; only then it gets the headers that S3 does not have (`x-oss-*`).
    """
    dropped = HOP_BY_HOP | _ORIGIN_HOST | _named_in_connection(headers)
    return tuple(
        (name, value)
        for name, value in headers.items()
        if (lower := name.lower()) not in dropped
        and (oss or not lower.startswith("x-oss-"))
        and (not lower.startswith(_OWN) or lower == DURABLE)
    )


def forwarded_headers(headers: Headers, extensions: frozenset[str] = frozenset()) -> HeaderPairs:
    """Returns the headers of a client's request for the origin. Raises S3Error for a malformed copy source.

    `extensions`: lower-case names of headers that this origin has in addition to S3's.
    """
    pairs = [*headers.items()]  # a repeated name is one key
    names = next(zip(*pairs, strict=True), ())
    kept = _forwarded_names(names, extensions)
    return tuple(_forwarded(headers, extensions)) if kept is None else tuple(compress(pairs, kept))


def signed_extensions(headers: Headers, extensions: frozenset[str], signed: Signed | None) -> frozenset[str]:
    """Returns the `extensions` of an origin that may be forwarded from a request.

    `signed`: None if signatures are not verified. Raises S3Error AccessDenied if the request has an extension that its
    signature should cover and does not.
    """
    if isinstance(signed, SignedOss):
        return frozenset()
    if isinstance(signed, SignedV4):
        for name in sorted(extensions - set(signed.signed_headers)):
            if name in headers:
                raise unsigned_header_error(name)
    return extensions


def forwarded_query(query: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Returns the query for the origin: decoded pairs, without the signature of a presigned URL."""
    return tuple(pair for pair in query if pair[0].lower() not in SIGNATURE_QUERY)


@lru_cache(maxsize=256)  # the requests of a client have the same names each time
def _forwarded_names(names: tuple[str, ...], extensions: frozenset[str]) -> tuple[bool, ...] | None:
    """Whether each header of a request is forwarded unchanged; None: the values have to be examined."""
    lowered = [name.lower() for name in names]
    if COPY_SOURCE in lowered or _DECODED_LENGTH in lowered:
        return None
    return tuple([_is_forwarded(lower, extensions) for lower in lowered])


def _is_forwarded(lower: str, extensions: frozenset[str]) -> bool:
    is_plain = lower.startswith("x-amz-") and lower not in _NOT_FORWARDED
    return is_plain or lower in _FORWARDED or lower in extensions


def _forwarded(headers: Headers, extensions: frozenset[str]) -> Iterator[tuple[str, str]]:
    # The Connection header is not consulted: no header of the list belongs to one connection, and an unsigned header
    # (`Connection: if-none-match`) must not remove a header that was signed and authorised.
    for name, value in headers.items():
        lower = name.lower()
        if lower == COPY_SOURCE:
            continue
        if lower == "content-encoding" and _DECODED_LENGTH in headers:
            # aws-chunked is the framing of the upload; the other codings are metadata of the object. Without that
            # framing, aws-chunked is metadata, too.
            encodings = [coding.strip() for coding in value.split(",")]
            kept = [coding for coding in encodings if coding and coding.lower() != "aws-chunked"]
            if kept:
                yield name, ", ".join(kept)
        elif _is_forwarded(lower, extensions):
            yield name, value
    source = parse_copy_source(headers)
    if source is not None:
        yield COPY_SOURCE, encode_copy_source(source)


def _named_in_connection(headers: Headers) -> frozenset[str]:
    return frozenset(name.strip().lower() for value in headers.getall("Connection", []) for name in value.split(","))
