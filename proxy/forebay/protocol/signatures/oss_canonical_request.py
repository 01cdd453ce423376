"""The canonical request of OSS Signature Version 4, and the signature over it.

Both directions use it (oss_verification verifies, oss_signing signs), so that they can't drift apart. Unlike in SigV4,
the bucket is always in the path, however the request is addressed; x-oss-* headers, Content-Type and Content-MD5 are
always covered, other headers only when they are named; an empty query value has no `=`.

    METHOD \\n /bucket/key \\n query \\n header:value \\n ... \\n \\n additional;names \\n payload

https://www.alibabacloud.com/help/en/oss/developer-reference/recommend-to-use-signature-version-4
"""

import hmac
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final, NamedTuple

from forebay.protocol.signatures.canonical_request import encode_path, encode_text

ALGORITHM: Final = "OSS4-HMAC-SHA256"
UNSIGNED_PAYLOAD: Final = "UNSIGNED-PAYLOAD"
"""Always in place of a hash of the body."""
TERMINATOR: Final = "aliyun_v4_request"


class OssScope(NamedTuple):
    """The scope of a version 4 signature."""

    date: str
    """YYYYMMDD, the day of the timestamp."""
    region: str
    """The region without `oss-`, such as `cn-hangzhou`."""
    product: str

    @property
    def text(self) -> str:
        """The scope as it is signed."""
        return f"{self.date}/{self.region}/{self.product}/{TERMINATOR}"


def resource_of(bucket: str | None, key: str | None) -> str:
    """The resource as all versions sign it: `/`, `/bucket/` or `/bucket/key`, decoded."""
    return "/" if bucket is None else f"/{bucket}/{key or ''}"


def canonical_query(pairs: Iterable[tuple[str, str]]) -> str:
    """Decoded pairs, encoded and sorted by encoded name. Version 2 has the same."""
    encoded = sorted([(encode_text(name), encode_text(value)) for name, value in pairs])
    return "&".join([f"{name}={value}" if value else name for name, value in encoded])


def header_lines(headers: Mapping[str, str]) -> str:
    """Headers (lower-case names to trimmed values) as all versions sign them."""
    return "".join([f"{name}:{value}\n" for name, value in sorted(headers.items())])


def canonical_request(
    method: str,
    resource: str,
    query: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    additional: Iterable[str],
) -> str:
    """The canonical request.

    `query`: all of it but the signature, decoded. `headers`: the covered ones, lower-case names to trimmed values.
    `additional`: the names of those that are covered only because they are named, sorted.
    """
    return f"{before_query(method, resource)}{canonical_query(query)}\n{after_query(headers, additional)}"


def before_query(method: str, resource: str) -> str:
    """The canonical request up to its query."""
    return f"{method}\n{encode_path(resource)}\n"


def after_query(headers: Mapping[str, str], additional: Iterable[str]) -> str:
    """The canonical request from the line after its query on."""
    return f"{header_lines(headers)}\n{';'.join(additional)}\n{UNSIGNED_PAYLOAD}"


@lru_cache(maxsize=1024)  # Bounded: region and date come from the request.
def signing_key(secret_key: str, scope: OssScope) -> bytes:
    """The key derived from a secret for one scope."""
    key = f"aliyun_v4{secret_key}".encode("utf-8", "surrogateescape")
    for word in (scope.date, scope.region, scope.product, TERMINATOR):
        key = hmac.digest(key, word.encode("utf-8", "surrogateescape"), "sha256")
    return key


def string_to_sign(timestamp: str, scope: OssScope, canonical: str) -> str:
    """The string to sign of a request."""
    digest = sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{ALGORITHM}\n{timestamp}\n{scope.text}\n{digest}"


def signature(secret_key: str, timestamp: str, scope: OssScope, canonical: str) -> str:
    """The signature of a canonical request, lower-case hex."""
    text = string_to_sign(timestamp, scope, canonical).encode("utf-8", "surrogateescape")
    return hmac.digest(signing_key(secret_key, scope), text, "sha256").hex()
