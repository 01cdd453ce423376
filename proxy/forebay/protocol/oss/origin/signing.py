"""Signing of the requests that Forebay itself sends to Alibaba OSS (OSS signature version 4, header form).

    METHOD \\n /bucket/key \\n query \\n header:value \\n ... \\n \\n host \\n UNSIGNED-PAYLOAD

It is not Signature Version 4 under another name: the bucket is in the canonical path also where it stands in the host
name, a query name without a value has no `=`, and only `x-oss-*`, Content-Type and Content-MD5 are signed, and what is
named besides: here Host, so that a request can't be sent elsewhere. Payloads are never hashed: TLS, Content-MD5 and
CRC-64 are what protects them, as with the vendor's own SDKs.

https://www.alibabacloud.com/help/en/oss/developer-reference/recommend-to-use-signature-version-4
"""

import hmac
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final

from forebay.protocol.amzdate import timestamp_of
from forebay.protocol.canonical import encode_path, encode_text
from forebay.protocol.secretkey import SecretKey

ALGORITHM: Final = "OSS4-HMAC-SHA256"
TERMINATOR: Final = "aliyun_v4_request"
PRODUCT: Final = "oss"
PAYLOAD: Final = "UNSIGNED-PAYLOAD"

_SIGNED: Final = frozenset({"content-md5", "content-type"})
_OURS: Final = frozenset({"authorization", "host", "x-oss-content-sha256", "x-oss-date", "x-oss-security-token"})


def sign_oss_request(
    method: str,
    host: str,
    bucket: str | None,
    key: str | None,
    query: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    secret: SecretKey,
    region: str,
    now: float,
) -> dict[str, str]:
    """The headers to add to a request: authorization, x-oss-date, x-oss-content-sha256, x-oss-security-token.

    `host`: the Host header as it will be sent. `query`: decoded pairs, sent as `encode_oss_query` writes them.
    `headers`: what else will be sent, names in lower case; it must not hold what is added here (ValueError). `region`:
    as in `cn-hangzhou`, without `oss-`. `now`: seconds since the epoch.
    """
    timestamp = timestamp_of(now)
    added = {"x-oss-date": timestamp, "x-oss-content-sha256": PAYLOAD}
    if secret.session_token is not None:
        added["x-oss-security-token"] = secret.session_token
    signed = {"host": host, **added}
    for name, value in headers.items():
        if name in _OURS:
            raise ValueError(f"{name} is set by the signature")
        if name.startswith("x-oss-") or name in _SIGNED:
            signed[name] = value.strip()
    lines = "".join([f"{name}:{signed[name]}\n" for name in sorted(signed)])
    path = encode_path(canonical_resource(bucket, key))
    request = f"{method}\n{path}\n{encode_oss_query(query)}\n{lines}\nhost\n{PAYLOAD}"
    scope = f"{timestamp[:8]}/{region}/{PRODUCT}/{TERMINATOR}"
    digest = sha256(request.encode("utf-8", "surrogateescape")).hexdigest()
    text = f"{ALGORITHM}\n{timestamp}\n{scope}\n{digest}"
    proof = hmac.digest(_key(secret.secret_key, timestamp[:8], region), text.encode(), "sha256").hex()
    added["authorization"] = (
        f"{ALGORITHM} Credential={secret.access_key}/{scope},AdditionalHeaders=host,Signature={proof}"
    )
    return added


def canonical_resource(bucket: str | None, key: str | None) -> str:
    """What is signed as the path, before it is encoded: the bucket is always in it."""
    return "/" if bucket is None else f"/{bucket}/{key or ''}"


def encode_oss_query(pairs: Iterable[tuple[str, str]]) -> str:
    """Decoded pairs as a raw query without the `?`, sorted: wire and canonical form are the same text."""
    encoded = sorted([(encode_text(name), encode_text(value)) for name, value in pairs])
    return "&".join([f"{name}={value}" if value else name for name, value in encoded])


@lru_cache(maxsize=64)
def _key(secret: str, date: str, region: str) -> bytes:
    key = f"aliyun_v4{secret}".encode("utf-8", "surrogateescape")
    for word in (date, region, PRODUCT, TERMINATOR):
        key = hmac.digest(key, word.encode("utf-8", "surrogateescape"), "sha256")
    return key
