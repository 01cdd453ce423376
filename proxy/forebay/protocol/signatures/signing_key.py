"""Secret keys, the signing keys derived from them, and the signing itself (Signature Version 4).

A derived key is valid for one day, region and service. Deriving it takes four HMACs, so recent keys are cached.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hmac
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import new, sha256
from typing import Final, Literal, NamedTuple, Protocol

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TERMINATOR: Final = "aws4_request"
_BLOCK: Final = 64  # bytes of a block of SHA-1 and of SHA-256


class HashState(Protocol):
    """The state of a hash, as in hashlib."""

    def update(self, content: bytes, /) -> None:
        """Adds content to the hash."""
        ...

    def copy(self) -> "HashState":
        """Returns an independent copy of the state."""
        ...

    def digest(self) -> bytes:
        """Returns the digest of the content so far."""
        ...

    def hexdigest(self) -> str:
        """Returns the same digest in lower-case hex."""
        ...


@dataclass(frozen=True, slots=True)
class SecretKey:
    """An access key with its secret. The repr omits secret and token, so they can't get into a log."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    """The token of temporary credentials, which each request must contain."""


class Scope(NamedTuple):
    """The credential scope: day, region and service for which a signature is valid."""

    date: str
    """YYYYMMDD, the day of the timestamp."""
    region: str
    service: str

    @property
    def text(self) -> str:
        """The scope as it is signed."""
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


@lru_cache(maxsize=1024)  # bounded, because region and date come from the request
def signing_key(secret_key: str, date: str, region: str, service: str) -> bytes:
    """Derives the signing key of a secret for one scope."""
    key = f"AWS4{secret_key}".encode("utf-8", "surrogateescape")
    for part in (date, region, service, TERMINATOR):
        key = hmac.digest(key, part.encode("utf-8", "surrogateescape"), "sha256")
    return key


def string_to_sign(timestamp: str, scope: Scope, canonical_request: str) -> str:
    """Returns the string to sign of a request: algorithm, timestamp, scope, and hash of the canonical request."""
    digest = sha256(canonical_request.encode("utf-8", "surrogateescape")).hexdigest()
    date, region, service = scope
    return f"{ALGORITHM}\n{timestamp}\n{date}/{region}/{service}/{TERMINATOR}\n{digest}"


def sign(key: bytes, text: str) -> str:
    """Returns the signature of `text` in lower-case hex. `key`: from `signing_key`."""
    keyed_inner, keyed_outer = hmac_states(key)
    inner, outer = keyed_inner.copy(), keyed_outer.copy()
    inner.update(text.encode("utf-8", "surrogateescape"))
    outer.update(inner.digest())
    return outer.hexdigest()


@lru_cache(maxsize=1024)
def hmac_states(key: bytes, digest: Literal["sha1", "sha256"] = "sha256") -> tuple[HashState, HashState]:
    """Returns the inner and the outer keyed hash of HMAC (RFC 2104); copy both before use.

    hmac.digest makes both for each call, at three times the cost.
    """
    padded = (key if len(key) <= _BLOCK else new(digest, key).digest()).ljust(_BLOCK, b"\0")
    return new(digest, bytes(byte ^ 0x36 for byte in padded)), new(digest, bytes(byte ^ 0x5C for byte in padded))
