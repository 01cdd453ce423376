"""Heads of reads, signed with Signature Version 4. The parts that many requests share are made once.

    GET /bucket/key HTTP/1.1        path and range    of the request
    host ... authorization          the rest          of the second and the key: made again when either changes

The signature is that of forebay.protocol.signatures.sigv4_signing (held by a test); signing a read takes three hashes,
two of which begin from states that are kept (signing_key.hmac_states).

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

import hmac
import time
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Final

from forebay.protocol.signatures.canonical_request import encode_path
from forebay.protocol.signatures.signing_key import SecretKey, hmac_states

_EMPTY: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
_HEADER_NAMES: Final = ("host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token")


class ReadSigner:
    """Makes the heads of GETs for one host and region. Used by many threads at once."""

    def __init__(
        self,
        host: str,
        region: str,
        credentials: Callable[[], SecretKey | None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`credentials`: the key now; None: requests are not signed. `clock`: seconds since the epoch."""
        self._host, self._region, self._credentials, self._clock = host, region, credentials, clock
        self._second = _Second(0, None, host, region, b"")
        self._day_key: tuple[SecretKey, str, bytes] | None = None

    def head(
        self, bucket: str, key: str, span: tuple[int, int | None] | None, extra: tuple[tuple[str, str], ...] = ()
    ) -> bytes:
        """The head of a GET of `bucket/key`, of the bytes from the first up to the second of `span`. `extra`: headers
        more, names in lower case."""
        secret, now = self._credentials(), int(self._clock())
        second = self._second
        if second.number != now or second.secret is not secret:
            second = self._second = _Second(now, secret, self._host, self._region, self._signing_key(secret, now))
        path = f"/{_encoded_bucket(bucket)}/{encode_path(key)}"
        if span is None and not extra and secret is not None:
            return second.plain_head(path.encode("ascii"))
        if span is not None:
            start, end = span
            extra = (*extra, ("range", f"bytes={start}-{'' if end is None else end - 1}"))
        return second.head(path, extra)

    def _signing_key(self, secret: SecretKey | None, now: int) -> bytes:
        """The key of the day."""
        if secret is None:
            return b""
        day, made = time.strftime("%Y%m%d", time.gmtime(now)), self._day_key
        if made is not None and made[0] is secret and made[1] == day:
            return made[2]
        key = f"AWS4{secret.secret_key}".encode()
        for part in (day, self._region, "s3", "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        self._day_key = secret, day, key
        return key


@lru_cache(maxsize=64)
def _encoded_bucket(bucket: str) -> str:
    return encode_path(bucket)


class _Second:
    """The parts of the head that all requests of one second share."""

    def __init__(self, number: int, secret: SecretKey | None, host: str, region: str, signing_key: bytes) -> None:
        self.number, self.secret = number, secret
        if secret is None:
            self._start = f" HTTP/1.1\r\nhost: {host}\r\n"
            return
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(number))
        scope = f"{stamp[:8]}/{region}/s3/aws4_request"
        values = (host, _EMPTY, stamp, secret.session_token)
        self._fields = [(name, value) for name, value in zip(_HEADER_NAMES, values, strict=True) if value is not None]
        inner, self._outer = hmac_states(signing_key)
        self._inner = inner.copy()
        self._inner.update(f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n".encode())
        self._authorization = f"AWS4-HMAC-SHA256 Credential={secret.access_key}/{scope},SignedHeaders="
        self._start = " HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in self._fields)
        names = ";".join([name for name, _ in self._fields])
        self._plain_end = f"\n\n{_canonical(self._fields)}\n\n{names}\n{_EMPTY}".encode()
        """The canonical request behind the path, of a read without further headers."""
        self._plain_start = f"{self._start}authorization: {self._authorization}{names},Signature=".encode("latin-1")
        """The head behind the path, likewise."""

    def plain_head(self, path: bytes) -> bytes:
        """The signed head of a read without headers more."""
        signature = self._signature(b"GET\n%b%b" % (path, self._plain_end))
        return b"GET %b%b%b\r\n\r\n" % (path, self._plain_start, signature.encode())

    def head(self, path: str, extra: tuple[tuple[str, str], ...]) -> bytes:
        lines = "".join([f"{name}: {value}\r\n" for name, value in extra])
        if self.secret is None:
            return f"GET {path}{self._start}{lines}\r\n".encode("ascii")
        fields = sorted([*self._fields, *extra])
        names = ";".join([name for name, _ in fields])
        signature = self._signature(f"GET\n{path}\n\n{_canonical(fields)}\n\n{names}\n{_EMPTY}".encode())
        return (
            f"GET {path}{self._start}{lines}authorization: {self._authorization}{names},Signature={signature}\r\n\r\n"
        ).encode("latin-1")

    def _signature(self, canonical_request: bytes) -> str:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(sha256(canonical_request).hexdigest().encode())
        outer.update(inner.digest())
        return outer.hexdigest()


def _canonical(fields: list[tuple[str, str]]) -> str:
    return "\n".join([f"{name}:{value}" for name, value in fields])
