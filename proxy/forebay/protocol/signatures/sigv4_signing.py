"""Signing of the requests that Forebay itself sends to an S3 origin (Signature Version 4, header form).

The canonical path is the result of `encode_path` and must be sent unchanged: HTTP clients normalise paths (aiohttp does
not for `URL(..., encoded=True)`), and one changed escape breaks the signature.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Final

from forebay.protocol.dates import format_timestamp
from forebay.protocol.signatures.canonical_request import canonical_path, canonical_query, canonical_value
from forebay.protocol.signatures.signing_key import ALGORITHM, Scope, SecretKey, hmac_states, sign, signing_key

# Headers that a transport or a proxy may add, change or remove: if signed, they would break the signature.
_NEVER_SIGNED: Final = frozenset(
    (
        "baggage",
        "connection",
        "expect",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "te",
        "traceparent",
        "tracestate",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "user-agent",
        "x-amzn-trace-id",
    )
)
_ADDED: Final = frozenset(("authorization", "host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"))


def sign_request(
    method: str,
    host: str,
    raw_path: str,
    query: Iterable[tuple[str, str]],
    headers: Mapping[str, str],
    payload_hash: str,
    secret: SecretKey,
    region: str,
    now: float,
    service: str = "s3",
) -> dict[str, str]:
    """Returns the headers to add: authorization, x-amz-date, x-amz-content-sha256, x-amz-security-token.

    `host`: the Host header as sent, with its port if that is sent. `raw_path`: from `encode_path`. `query`: decoded
    pairs, sent as `canonical_query` writes them. `headers`: all other headers; they are signed except the transport's.
    Raises ValueError if they contain one of the added headers. `payload_hash`: the hex SHA-256 of the body,
    UNSIGNED-PAYLOAD, or a form of aws-chunked without signatures. `now`: seconds since the epoch.
    """
    template = SigningTemplate(method, host, query, headers, payload_hash, secret, region, now, service)
    return {**template.added, "authorization": template.authorization(canonical_path(raw_path))}


class SigningTemplate:
    """The signatures of requests within one second that differ in their path alone: the common steps of `sign_request`,
    done once. The arguments are those of `sign_request`."""

    __slots__ = ("_before", "_behind", "_claim", "_inner", "_outer", "added")

    def __init__(
        self,
        method: str,
        host: str,
        query: Iterable[tuple[str, str]],
        headers: Mapping[str, str],
        payload_hash: str,
        secret: SecretKey,
        region: str,
        now: float,
        service: str = "s3",
    ) -> None:
        timestamp = format_timestamp(now)
        scope = Scope(timestamp[:8], region, service)
        added = {"x-amz-date": timestamp, "x-amz-content-sha256": payload_hash}
        if secret.session_token is not None:
            added["x-amz-security-token"] = secret.session_token
        self.added = added
        """The headers to add besides `authorization`."""
        values = {"host": host, **{name: canonical_value((value,)) for name, value in added.items()}}
        for name, value in headers.items():
            lower = name.lower()
            if lower in _NEVER_SIGNED:
                continue
            if lower in _ADDED:
                raise ValueError(f"{lower} is set by the signature")
            trimmed = canonical_value((value,))
            values[lower] = f"{values[lower]},{trimmed}" if lower in values else trimmed
        names = sorted(values)
        lines = "".join([f"{name}:{values[name]}\n" for name in names])
        signed_names = ";".join(names)
        self._before = f"{method}\n"
        self._behind = f"\n{canonical_query(query)}\n{lines}\n{signed_names}\n{payload_hash}"
        self._claim = (
            f"{ALGORITHM} Credential={secret.access_key}/{scope.text}, SignedHeaders={signed_names}, Signature="
        )
        inner, self._outer = hmac_states(signing_key(secret.secret_key, *scope))
        self._inner = inner.copy()
        self._inner.update(f"{ALGORITHM}\n{timestamp}\n{scope.text}\n".encode("utf-8", "surrogateescape"))

    def authorization(self, path: str) -> str:
        """Returns the header of the request for a canonical path."""
        request = f"{self._before}{path}{self._behind}".encode("utf-8", "surrogateescape")
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(sha256(request).hexdigest().encode())
        outer.update(inner.digest())
        return f"{self._claim}{outer.hexdigest()}"


def presigned_query(
    method: str,
    host: str,
    raw_path: str,
    query: Iterable[tuple[str, str]],
    secret: SecretKey,
    region: str,
    now: float,
    expires: int,
) -> str:
    """Returns the encoded query of a presigned URL, which anybody may request for `expires` seconds; its body is not
    signed. The other arguments are those of `sign_request`.

    https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
    """
    timestamp = format_timestamp(now)
    scope = Scope(timestamp[:8], region, "s3")
    pairs = [
        *query,
        ("X-Amz-Algorithm", ALGORITHM),
        ("X-Amz-Credential", f"{secret.access_key}/{scope.text}"),
        ("X-Amz-Date", timestamp),
        ("X-Amz-Expires", str(expires)),
        ("X-Amz-SignedHeaders", "host"),
    ]
    if secret.session_token is not None:
        pairs.append(("X-Amz-Security-Token", secret.session_token))
    encoded = canonical_query(pairs)
    canonical = f"{method}\n{canonical_path(raw_path)}\n{encoded}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD"
    text = f"{ALGORITHM}\n{timestamp}\n{scope.text}\n{sha256(canonical.encode()).hexdigest()}"
    return f"{encoded}&X-Amz-Signature={sign(signing_key(secret.secret_key, *scope), text)}"
