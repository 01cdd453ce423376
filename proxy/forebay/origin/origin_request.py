"""A request to the origin, before it has an address and a signature."""

from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.origin.endpoint import QueryPairs
from forebay.protocol.signatures.signing_key import SecretKey

EMPTY_SHA256: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"

# Sent by this floor itself, or the transport's. Given by a caller they would stand there twice, or lie.
_OURS: Final = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-security-token",
    }
)
_SIGNED: Final = frozenset({"content-type", "content-md5", "range"})


@dataclass(frozen=True, slots=True)
class OriginRequest:
    """What is asked. `bucket` and `key` are decoded names; `query` and `headers` are pairs in order."""

    method: str
    bucket: str | None = None
    key: str | None = None
    query: QueryPairs = ()
    headers: HeaderPairs = ()
    """Headers that are this floor's own (Host, Authorization, User-Agent, Content-Length and so on) are left out."""
    body: AsyncIterable[bytes] | bytes | None = None
    content_length: int | None = None
    """Bytes of `body`. None with an AsyncIterable: `Transfer-Encoding: chunked`, which few origins take."""
    payload_hash: str = EMPTY_SHA256
    """The SHA-256 of the body in hex, UNSIGNED-PAYLOAD, or STREAMING-UNSIGNED-PAYLOAD-TRAILER with the framing in
    `body`.
    """
    operation: str = "Unknown"
    """The label for events and metrics: the API's name."""
    credential: SecretKey | None = None
    """None: the origin client's own."""

    @property
    def is_read(self) -> bool:
        """Whether it is safe in the sense of RFC 9110, 9.2.1: asking twice is as good as asking once."""
        return self.method in {"GET", "HEAD"}


def caller_headers(headers: HeaderPairs) -> list[tuple[str, str]]:
    """The headers of a request that are the caller's to give. S3Error when one has no form on the wire.

    aiohttp leaves out a byte that is not UTF-8 without a word, and the signature would be over something else.
    """
    for _, value in headers:
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise S3Error("InvalidRequest", "A header of the request is not UTF-8.") from None
    return [pair for pair in headers if pair[0].lower() not in _OURS]


def signed_headers(headers: list[tuple[str, str]]) -> Mapping[str, str]:
    """The headers that the signature covers, names in lower case; Host and what signing adds come on top.

    Repeated headers are joined with a comma, as SigV4 wants them.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """
    signed: dict[str, str] = {}
    for name, value in headers:
        lower = name.lower()
        if lower.startswith(("x-amz-", "if-")) or lower in _SIGNED:
            signed[lower] = f"{signed[lower]},{value}" if lower in signed else value
    return signed
