"""The secret of an access key, the keys derived from it, and what is signed with them (Signature Version 4).

A derived key is good for one day, region and service. Deriving it costs four HMACs, so the last few are kept.

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
    """A hash under way."""

    def update(self, content: bytes, /) -> None: ...
    def copy(self) -> "HashState": ...
    def digest(self) -> bytes: ...
    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class SecretKey:
    """An access key with its secret. The repr shows neither secret nor token, so that no log can."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    """Of temporary credentials: each request must carry it."""


class Scope(NamedTuple):
    """What a signature is good for."""

    date: str
    """YYYYMMDD, the day of the timestamp."""
    region: str
    service: str

    @property
    def text(self) -> str:
        return f"{self.date}/{self.region}/{self.service}/{TERMINATOR}"


@lru_cache(maxsize=1024)  # Bounded: region and date come from the request.
def signing_key(secret_key: str, date: str, region: str, service: str) -> bytes:
    """The key derived from a secret for one scope."""
    key = f"AWS4{secret_key}".encode("utf-8", "surrogateescape")
    for word in (date, region, service, TERMINATOR):
        key = hmac.digest(key, word.encode("utf-8", "surrogateescape"), "sha256")
    return key


def string_to_sign(timestamp: str, scope: Scope, canonical_request: str) -> str:
    """What is signed for a request."""
    digest = sha256(canonical_request.encode("utf-8", "surrogateescape")).hexdigest()
    date, region, service = scope
    return f"{ALGORITHM}\n{timestamp}\n{date}/{region}/{service}/{TERMINATOR}\n{digest}"


def sign(key: bytes, text: str) -> str:
    """The signature of `text`, lower-case hex. `key`: from `signing_key`."""
    ready, outer = hmac_states(key)
    inner, outer = ready.copy(), outer.copy()
    inner.update(text.encode("utf-8", "surrogateescape"))
    outer.update(inner.digest())
    return outer.hexdigest()


@lru_cache(maxsize=1024)
def hmac_states(key: bytes, digest: Literal["sha1", "sha256"] = "sha256") -> tuple[HashState, HashState]:
    """HMAC (RFC 2104) with both keyed halves made beforehand, to be copied: hmac.digest makes them anew each time, at
    three times the cost."""
    padded = (key if len(key) <= _BLOCK else new(digest, key).digest()).ljust(_BLOCK, b"\0")
    return new(digest, bytes(byte ^ 0x36 for byte in padded)), new(digest, bytes(byte ^ 0x5C for byte in padded))
