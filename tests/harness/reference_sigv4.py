"""Signature Version 4 by botocore, for whoever in the tests needs a second opinion.

The clients of the tests sign with it and the fake origin verifies with it, so that neither believes what Forebay's own
code believes. The canonical request, the string to sign and the key derivation are botocore's; what botocore lacks
are the chained signatures of aws-chunked bodies, which are written here after
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and its page on trailers.

It is not fast (a tenth of a millisecond a signature) and has no clock: `timestamp` is an argument.
"""

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest, HTTPHeaders
from botocore.credentials import Credentials

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"
SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
SIGNED_CHUNKS_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_CHUNKS_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"


@dataclass(frozen=True, slots=True)
class Secret:
    """Who signs, and for which region. `token` is the session token of temporary credentials."""

    access: str
    secret: str
    region: str = "us-east-1"
    token: str | None = None


def timestamp_of(now: float) -> str:
    """`20260102T030405Z`, the only form of time that SigV4 knows."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")


class _Exactly(S3SigV4Auth):  # type: ignore[misc]  # botocore ships no types
    """Signs the named headers and no others; botocore by itself would choose them."""

    def __init__(self, secret: Secret, names: Collection[str]) -> None:
        super().__init__(Credentials(secret.access, secret.secret), "s3", secret.region)
        self._names = names

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:
        chosen = HTTPHeaders()
        for name, value in request.headers.items():
            if name.lower() in self._names:
                chosen[name.lower()] = value
        return chosen

    def payload(self, request: AWSRequest) -> str:
        return UNSIGNED


def request_signature(
    secret: Secret,
    timestamp: str,
    *,
    method: str,
    raw_path: str,
    raw_query: str,
    headers: Iterable[tuple[str, str]],
    signed: Collection[str],
) -> str:
    """The signature of a request as it stands on the wire.

    `signed` holds lower-case names. The payload hash is the x-amz-content-sha256 header if there is one, else
    UNSIGNED-PAYLOAD. For a presigned URL, `raw_query` is without X-Amz-Signature.
    """
    signer = _Exactly(secret, signed)
    request = AWSRequest(method=method, url=f"http://signed{raw_path}{'?' if raw_query else ''}{raw_query}")
    for name, value in headers:
        request.headers[name] = value
    request.context["timestamp"] = timestamp
    to_sign = signer.string_to_sign(request, signer.canonical_request(request))
    return str(signer.signature(to_sign, request))


def _chained(secret: Secret, timestamp: str, kind: str, *lines: str) -> str:
    signer = _Exactly(secret, ())
    request = AWSRequest(method="PUT", url="http://signed/")
    request.context["timestamp"] = timestamp
    return str(signer.signature("\n".join((kind, timestamp, signer.credential_scope(request), *lines)), request))


def chunk_signature(secret: Secret, timestamp: str, previous: str, payload: bytes | memoryview) -> str:
    """The signature of one aws-chunk; `previous` is that of the chunk before, or the request's own."""
    digest = hashlib.sha256(payload).hexdigest()
    return _chained(secret, timestamp, "AWS4-HMAC-SHA256-PAYLOAD", previous, EMPTY_SHA256, digest)


def trailer_signature(secret: Secret, timestamp: str, previous: str, trailers: bytes) -> str:
    """The signature of the trailers, given as `name:value\\n` for each; `previous` is that of the last, empty chunk."""
    return _chained(secret, timestamp, "AWS4-HMAC-SHA256-TRAILER", previous, hashlib.sha256(trailers).hexdigest())
