"""Signing of the requests that Forebay itself sends to Alibaba OSS (OSS signature version 4, header form).

What is signed is forebay.protocol.oss.oss_canonical_request's, by which clients' requests are verified too. Host is
named as an
additional header, so that a request can't be sent elsewhere. Payloads are never hashed: TLS, Content-MD5 and CRC-64 are
what protects them, as with the vendor's own SDKs.

https://www.alibabacloud.com/help/en/oss/developer-reference/recommend-to-use-signature-version-4
"""

from collections.abc import Iterable, Mapping
from typing import Final

from forebay.protocol.oss.oss_canonical_request import (
    ALGORITHM,
    UNSIGNED_PAYLOAD,
    canonical_request,
    resource_of,
    signature,
)
from forebay.protocol.oss.oss_claim import OssScope
from forebay.protocol.signatures.amz_date import format_timestamp
from forebay.protocol.signatures.signing_key import SecretKey

PRODUCT: Final = "oss"

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

    `host`: the Host header as it will be sent. `query`: decoded pairs, sent as `canonical_query` writes them.
    `headers`: what else will be sent, names in lower case; it must not hold what is added here (ValueError). `region`:
    as in `cn-hangzhou`, without `oss-`. `now`: seconds since the epoch.
    """
    timestamp = format_timestamp(now)
    added = {"x-oss-date": timestamp, "x-oss-content-sha256": UNSIGNED_PAYLOAD}
    if secret.session_token is not None:
        added["x-oss-security-token"] = secret.session_token
    signed = {"host": host, **added}
    for name, value in headers.items():
        if name in _OURS:
            raise ValueError(f"{name} is set by the signature")
        if name.startswith("x-oss-") or name in _SIGNED:
            signed[name] = value.strip()
    scope = OssScope(timestamp[:8], region, PRODUCT)
    whole = canonical_request(method, resource_of(bucket, key), query, signed, ("host",))
    proof = signature(secret.secret_key, timestamp, scope, whole)
    added["authorization"] = (
        f"{ALGORITHM} Credential={secret.access_key}/{scope.text},AdditionalHeaders=host,Signature={proof}"
    )
    return added
