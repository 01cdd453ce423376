"""Verification of Signature Version 4, in the header and in presigned URLs.

    read_claim(target, headers) -> ClaimV4 | ...          the claim: forebay.protocol.signatures.sigv4_claim
    verify_v4(claim, ..., secret, now) -> SignedV4        the verified signature, or S3Error: this module

Invariants:

- The signature covers exactly the headers that SignedHeaders names. They must include `host` and every x-amz-* header
  of the request: an unsigned one could be added on the way and change the operation.
- Signatures and tokens are compared in constant time; the token only after the signature was verified.
- Any region is accepted if the signing key was derived with it: clients behind a proxy are configured with the region
  of their origin, or none, and Forebay has one secret for each key, not for each region.
- On the hit path: read_claim and verify_v4 together take microseconds.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html
"""

from collections.abc import Sequence
from typing import NamedTuple

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds, format_iso8601
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures.canonical_request import (
    NO_TEXT,
    SignedText,
    canonical_path,
    canonical_query,
    canonical_value,
)
from forebay.protocol.signatures.credential_checks import (
    MAX_SKEW,
    check_expiry,
    check_key,
    check_skew,
    check_token,
    equals_in_constant_time,
)
from forebay.protocol.signatures.signing_key import Scope, SecretKey, sign, signing_key, string_to_sign
from forebay.protocol.signatures.sigv4_claim import ClaimV4, Form
from forebay.protocol.target import Target


class SignedV4(NamedTuple):
    """A verified signature; only `verify_v4` makes one. The repr omits the key."""

    access_key: str
    form: Form
    timestamp: str
    scope: Scope
    signature: str
    """The seed of aws-chunked signatures."""
    signing_key: bytes
    payload: str
    """The value of x-amz-content-sha256 that the signature covers; "UNSIGNED-PAYLOAD" for most presigned URLs."""
    signed_headers: tuple[str, ...] = ()
    """The names of the headers that the signature covers, in lower case."""
    text: SignedText = NO_TEXT
    """The canonical request, as it was signed."""

    def __repr__(self) -> str:
        return f"SignedV4({self.access_key!r}, {self.scope.text!r}, {self.timestamp}, form={self.form!r})"


def verify_v4(claim: ClaimV4, method: str, target: Target, headers: Headers, secret: SecretKey, now: float) -> SignedV4:
    """Verifies that the request was signed with `secret` and that the signature is valid at `now`.

    `now`: seconds since the epoch. Raises S3Error: InvalidAccessKeyId, RequestTimeTooSkewed, AccessDenied,
    AuthorizationHeaderMalformed, AuthorizationQueryParametersError, SignatureDoesNotMatch, InvalidToken.
    """
    check_key(claim.access_key, secret)
    _check_time(claim, now)
    _check_scope(claim)
    _check_coverage(claim, headers)
    scope = claim.scope
    key = signing_key(secret.secret_key, scope.date, scope.region, scope.service)
    text = signed_text(claim, method, target, headers)
    signed = string_to_sign(claim.timestamp, scope, text.whole)
    if not equals_in_constant_time(sign(key, signed), claim.signature):
        # Some clients send `%2F` in a key and sign `/`. Both name the same decoded object: the bucket ends at the first
        # literal slash and contains none, so an escaped slash that is verified as a literal one can't move its end.
        path = canonical_path(target.raw_path)
        slashed = path.replace("%2F", "/")
        text = text._replace(first=text.first.replace(f"\n{path}\n", f"\n{slashed}\n", 1))
        if "/" in (target.bucket or "") or not equals_in_constant_time(
            sign(key, string_to_sign(claim.timestamp, scope, text.whole)), claim.signature
        ):
            raise S3Error("SignatureDoesNotMatch", AWSAccessKeyId=claim.access_key, StringToSign=signed)
    check_token(claim.security_token, secret)
    return SignedV4(
        claim.access_key,
        claim.form,
        claim.timestamp,
        scope,
        claim.signature,
        key,
        claim.payload,
        claim.signed_headers,
        text,
    )


def signed_text(claim: ClaimV4, method: str, target: Target, headers: Headers) -> SignedText:
    """Returns the canonical request. Raises S3Error SignatureDoesNotMatch if a signed header is absent."""
    query = canonical_query(_signed_query(claim, target)) if target.query else ""
    lines = []
    for name in claim.signed_headers:
        values = headers.getall(name, ())
        if not values:
            # An absent header is not an empty one: the client signed it, and it was removed on the way.
            raise S3Error("SignatureDoesNotMatch", f"The signed header {name} is not in the request.")
        lines.append(f"{name}:{canonical_value(values)}\n")
    first, middle = before_query(method, target), f"{query}\n"
    if claim.form == "header":
        first, middle = first + middle, ""
    return SignedText(first, f"{middle}{''.join(lines)}\n{';'.join(claim.signed_headers)}\n{claim.payload}")


def before_query(method: str, target: Target) -> str:
    """Returns the canonical request up to its query."""
    return f"{method}\n{canonical_path(target.raw_path)}\n"


def _signed_query(claim: ClaimV4, target: Target) -> Sequence[tuple[str, str]]:
    if claim.form == "header":
        return target.query
    return [pair for pair in target.query if pair[0] != "X-Amz-Signature"]


def _check_time(claim: ClaimV4, now: float) -> None:
    signed_at = epoch_seconds(claim.timestamp)
    if claim.expires is None:
        check_skew(signed_at, claim.timestamp, now)
        return
    check_expiry(signed_at + claim.expires, now)
    if signed_at - now > MAX_SKEW:
        raise S3Error("AccessDenied", "Request is not valid yet", ServerTime=format_iso8601(now))


def _check_scope(claim: ClaimV4) -> None:
    code = "AuthorizationHeaderMalformed" if claim.form == "header" else "AuthorizationQueryParametersError"
    if claim.scope.date != claim.timestamp[:8]:
        raise S3Error(code, "The date of the credential is not that of the request's timestamp.")
    if claim.scope.service != "s3":
        raise S3Error(code, 'The service of the credential must be "s3".')


def _check_coverage(claim: ClaimV4, headers: Headers) -> None:
    signed = claim.signed_headers
    for name in headers:
        if name[:6].lower() == "x-amz-" and name.lower() not in signed:
            raise unsigned_header_error(name.lower())
    if "host" not in signed:
        raise unsigned_header_error("host")


def unsigned_header_error(name: str) -> S3Error:
    """Returns the error for a header that the signature must cover, and does not."""
    return S3Error("AccessDenied", "There were headers in the request that were not signed.", HeadersNotSigned=name)
