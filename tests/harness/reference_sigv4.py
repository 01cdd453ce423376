"""Signature Version 4, for whoever in the tests needs a second opinion.

The clients of the tests sign with it and the fake origin verifies with it, so that neither believes what Forebay's own
code believes: it shares nothing with that, and is held by its tests to botocore's signer, for any request. (botocore
itself takes four times as long, and nearly each request of a test is signed once or twice.) The chained signatures of
aws-chunked bodies are written after https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html and its page
on trailers.

It has no clock: `timestamp` is an argument.
"""

import hashlib
import hmac
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

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


@lru_cache(1024)
def _signing_key(secret: Secret, day: str) -> bytes:
    key = f"AWS4{secret.secret}".encode()
    for word in (day, secret.region, "s3", "aws4_request"):
        key = hmac.digest(key, word.encode(), "sha256")
    return key


def _signature(secret: Secret, kind: str, timestamp: str, *lines: str) -> str:
    scope = f"{timestamp[:8]}/{secret.region}/s3/aws4_request"
    to_sign = "\n".join((kind, timestamp, scope, *lines))
    return hmac.digest(_signing_key(secret, timestamp[:8]), to_sign.encode(), "sha256").hex()


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
    payload, values = UNSIGNED, dict[str, list[str]]()
    for name, value in reversed([*headers]):
        lower = name.lower()
        if lower == "x-amz-content-sha256":
            payload = value  # the first one, in the end
        if lower in signed:
            values.setdefault(lower, []).insert(0, " ".join(value.split()))
    query = sorted(pair.partition("=")[::2] for pair in raw_query.split("&")) if raw_query else ()
    canonical = "\n".join(
        (
            method.upper(),
            raw_path,
            "&".join(f"{name}={value}" for name, value in query),
            "\n".join(f"{name}:{','.join(values[name])}" for name in sorted(values)),
            "",
            ";".join(sorted(values)),
            payload,
        )
    )
    return _signature(secret, "AWS4-HMAC-SHA256", timestamp, hashlib.sha256(canonical.encode()).hexdigest())


def chunk_signature(secret: Secret, timestamp: str, previous: str, payload: bytes | memoryview) -> str:
    """The signature of one aws-chunk; `previous` is that of the chunk before, or the request's own."""
    digest = hashlib.sha256(payload).hexdigest()
    return _signature(secret, "AWS4-HMAC-SHA256-PAYLOAD", timestamp, previous, EMPTY_SHA256, digest)


def trailer_signature(secret: Secret, timestamp: str, previous: str, trailers: bytes) -> str:
    """The signature of the trailers, given as `name:value\\n` for each; `previous` is that of the last, empty chunk."""
    return _signature(secret, "AWS4-HMAC-SHA256-TRAILER", timestamp, previous, hashlib.sha256(trailers).hexdigest())
