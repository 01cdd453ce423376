"""The modes of aws-chunked, and the signature chain of the signed modes.

Each signature covers the previous one, starting with that of the request (the seed), so that no chunk can be dropped,
repeated or reordered:

    seed --> chunk 1 --> chunk 2 --> ... --> the empty chunk --> trailer

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
"""

from enum import Enum
from hashlib import sha256
from typing import Final

from forebay.core.errors import S3Error
from forebay.protocol.signatures.credential_checks import hex_bytes, redact_signed_text
from forebay.protocol.signatures.signing_key import Scope, sign

TRAILER_SIGNATURE: Final = "x-amz-trailer-signature"

_EMPTY_SHA256: Final = sha256(b"").hexdigest()


class ChunkedMode(Enum):
    """The supported modes, by their values of x-amz-content-sha256."""

    SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
    UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"

    @property
    def is_signed(self) -> bool:
        """Whether each chunk has a signature."""
        return self is not ChunkedMode.UNSIGNED_TRAILER

    @property
    def has_trailer(self) -> bool:
        """Whether a trailer may follow the last chunk."""
        return self is not ChunkedMode.SIGNED


class ChunkSignatureChain:
    """Computes the signatures of one body in order; each call advances the chain."""

    __slots__ = ("_access_key", "_key", "_previous", "_request", "_text", "_timestamp_and_scope")

    def __init__(
        self, signing_key: bytes, timestamp: str, scope: Scope, seed: str, access_key: str = "", request: str = ""
    ) -> None:
        """`seed`: the signature of the request. `access_key`, `request` (the canonical request): for the error."""
        self._access_key, self._request = access_key, request
        self._key = signing_key
        self._timestamp_and_scope = f"{timestamp}\n{scope.text}"
        self._previous = seed
        self._text = ""

    def mismatch_error(self, claimed: str) -> S3Error:
        """The error for a claimed signature other than the last computed one, with S3's elements."""
        request = redact_signed_text(self._request)
        return S3Error(
            "SignatureDoesNotMatch",
            AWSAccessKeyId=self._access_key,
            StringToSign=self._text,
            SignatureProvided=claimed,
            StringToSignBytes=hex_bytes(self._text),
            CanonicalRequest=request,
            CanonicalRequestBytes=hex_bytes(request),
        )

    def chunk_signature(self, sha256_hex: str) -> str:
        """The signature of the next chunk, from the SHA-256 of its bytes in hex."""
        return self._next("AWS4-HMAC-SHA256-PAYLOAD", f"{_EMPTY_SHA256}\n{sha256_hex}")

    def trailer_signature(self, name: str, value: str) -> str:
        """The signature of the trailer, the last one of the chain."""
        return self._next("AWS4-HMAC-SHA256-TRAILER", sha256(f"{name}:{value}\n".encode()).hexdigest())

    def _next(self, algorithm: str, hashes: str) -> str:
        self._text = f"{algorithm}\n{self._timestamp_and_scope}\n{self._previous}\n{hashes}"
        self._previous = sign(self._key, self._text)
        return self._previous
