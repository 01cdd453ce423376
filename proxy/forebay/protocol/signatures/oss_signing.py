"""Signing of Forebay's own requests to Alibaba OSS (OSS Signature Version 4, header form).

The canonical request is the one by which clients' requests are verified. Host is named as an additional header, so that
a request can't be sent elsewhere. Payloads are never hashed: TLS, Content-MD5 and CRC-64 protect them, as with the
vendor's own SDKs.

https://www.alibabacloud.com/help/en/oss/developer-reference/recommend-to-use-signature-version-4
"""

from collections.abc import Iterable, Mapping
from typing import Final

from forebay.protocol.dates import format_timestamp
from forebay.protocol.signatures.oss_canonical_request import (
    ALGORITHM,
    UNSIGNED_PAYLOAD,
    OssScope,
    canonical_query,
    canonical_request,
    resource_of,
    signature,
)
from forebay.protocol.signatures.signing_key import SecretKey

PRODUCT: Final = "oss"

_SIGNED: Final = frozenset({"content-md5", "content-type"})
_ADDED: Final = frozenset({"authorization", "host", "x-oss-content-sha256", "x-oss-date", "x-oss-security-token"})


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
    `headers`: the other headers sent, names in lower case; ValueError if one of the added is among them. `region`:
    as in `cn-hangzhou`, without `oss-`. `now`: seconds since the epoch.
    """
    timestamp = format_timestamp(now)
    added = {"x-oss-date": timestamp, "x-oss-content-sha256": UNSIGNED_PAYLOAD}
    if secret.session_token is not None:
        added["x-oss-security-token"] = secret.session_token
    signed = {"host": host, **added}
    for name, value in headers.items():
        if name in _ADDED:
            raise ValueError(f"{name} is set by the signature")
        if name.startswith("x-oss-") or name in _SIGNED:
            signed[name] = value.strip()
    scope = OssScope(timestamp[:8], region, PRODUCT)
    canonical = canonical_request(method, resource_of(bucket, key), query, signed, ("host",))
    text = signature(secret.secret_key, timestamp, scope, canonical)
    added["authorization"] = (
        f"{ALGORITHM} Credential={secret.access_key}/{scope.text},AdditionalHeaders=host,Signature={text}"
    )
    return added


def presigned_oss_query(
    method: str,
    host: str,
    bucket: str | None,
    key: str | None,
    secret: SecretKey,
    region: str,
    now: float,
    expires: int,
) -> str:
    """The encoded query of a presigned URL, which anybody may request for `expires` seconds. The other arguments are
    those of `sign_oss_request`.

    https://www.alibabacloud.com/help/en/oss/developer-reference/add-signatures-to-urls
    """
    timestamp = format_timestamp(now)
    scope = OssScope(timestamp[:8], region, PRODUCT)
    pairs = [
        ("x-oss-signature-version", ALGORITHM),
        ("x-oss-credential", f"{secret.access_key}/{scope.text}"),
        ("x-oss-date", timestamp),
        ("x-oss-expires", str(expires)),
        ("x-oss-additional-headers", "host"),
    ]
    if secret.session_token is not None:
        pairs.append(("x-oss-security-token", secret.session_token))
    canonical = canonical_request(method, resource_of(bucket, key), pairs, {"host": host}, ("host",))
    pairs.append(("x-oss-signature", signature(secret.secret_key, timestamp, scope, canonical)))
    return canonical_query(pairs)
