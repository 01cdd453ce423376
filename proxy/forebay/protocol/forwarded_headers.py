"""What is repeated when a request or an answer is passed on: headers and query, stripped of what is not the next hop's.

Answers lose what is of one connection only (RFC 9110 section 7.6.1) and what would speak for our host in the origin's
name. Requests go by an allow-list, as they leave with our signature: a header that some origin obeys and nobody here
has judged (Swift's X-Copy-From, a method override) must not reach it. The signature's own headers and query, and those
that describe the framing of an aws-chunked body, are the origin client's to write; the copy source is written anew.
What a request's Connection names is sent all the same: it was signed, and Connection is not.

What an origin obeys beside S3's headers (Swift's X-Delete-After) goes only where it was signed, as far as signatures
can tell: Version 4 says which headers it covers; Version 2 can't cover them, and Swift obeys them there as well; OSS's
clients know none of them.
"""

from collections.abc import Iterator
from typing import Final

from forebay.core.heads import HeaderPairs
from forebay.protocol.copy_source import COPY_SOURCE, encode_copy_source, parse_copy_source
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures.sigv4 import unsigned_header_error
from forebay.protocol.signatures.verified import Signed, SignedOss, SignedV4

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
# True of the origin's host, not of ours.
_OF_THE_ORIGIN: Final = frozenset({"alt-svc", "set-cookie", "strict-transport-security"})

_FORWARDED: Final = frozenset(
    {
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-md5",
        "content-type",
        "expires",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
    }
)
# Signature and framing of the request that came; the one that leaves has its own.
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
    """The headers of an origin's answer that a client gets when the answer is passed on. `oss`: it speaks OSS, and is
    told what only OSS tells."""
    dropped = HOP_BY_HOP | _OF_THE_ORIGIN | _named_in_connection(headers)
    return tuple(
        (name, value)
        for name, value in headers.items()
        if (lower := name.lower()) not in dropped and (oss or not lower.startswith("x-oss-"))
    )


def forwarded_headers(headers: Headers, extensions: frozenset[str] = frozenset()) -> HeaderPairs:
    """The headers of a client's request that the origin gets; `extensions`: those that this one has beside S3's, in
    lower case. Raises S3Error for a malformed copy source."""
    return tuple(_forwarded(headers, extensions))


def signed_extensions(headers: Headers, extensions: frozenset[str], signed: Signed | None) -> frozenset[str]:
    """Those of an origin's `extensions` that a request may bear. `signed` is None where nobody checks signatures.
    Raises S3Error AccessDenied for one that is there and should have been signed."""
    if isinstance(signed, SignedOss):
        return frozenset()
    if isinstance(signed, SignedV4):
        for name in sorted(extensions - set(signed.signed_headers)):
            if name in headers:
                raise unsigned_header_error(name)
    return extensions


def forwarded_query(query: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The query that the origin gets: decoded pairs, without the signature of a presigned URL."""
    return tuple(pair for pair in query if pair[0].lower() not in SIGNATURE_QUERY)


def _forwarded(headers: Headers, extensions: frozenset[str]) -> Iterator[tuple[str, str]]:
    # Whatever Connection names: nothing on the list belongs to one connection, and what was signed and authorised is
    # not to be taken away by a header that nobody signs (`Connection: if-none-match`).
    for name, value in headers.items():
        lower = name.lower()
        if lower == COPY_SOURCE:
            continue
        if lower == "content-encoding" and "x-amz-decoded-content-length" in headers:
            # aws-chunked is the framing of the upload; what else stands there is metadata of the object. In an upload
            # that is not framed it is metadata, too.
            encodings = [coding.strip() for coding in value.split(",")]
            kept = [coding for coding in encodings if coding and coding.lower() != "aws-chunked"]
            if kept:
                yield name, ", ".join(kept)
        elif lower in _FORWARDED or lower in extensions or (lower.startswith("x-amz-") and lower not in _NOT_FORWARDED):
            yield name, value
    source = parse_copy_source(headers)
    if source is not None:
        yield COPY_SOURCE, encode_copy_source(source)


def _named_in_connection(headers: Headers) -> frozenset[str]:
    return frozenset(name.strip().lower() for value in headers.getall("Connection", []) for name in value.split(","))
