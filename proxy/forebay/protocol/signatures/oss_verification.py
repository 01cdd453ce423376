"""Verification of signed OSS requests: versions 1, 2 and 4, in the header and in URLs.

    read_claim(target, headers) -> ... | OssClaim         the signature fields (forebay.protocol.signatures.sigv4_claim)
    verify_oss(claim, ..., secret, now) -> SignedOss      the proof, or S3Error (here)

Invariants:

- The bucket and the key are always covered, decoded, whichever way the request is addressed; so is every x-oss-*
  header, Content-Type and Content-MD5. Versions 2 and 4 cover the whole query, version 1 the sub-resources of
  forebay.protocol.signatures.oss_subresources, and of all requests with the same signature one is accepted.
- No x-amz-* header or query name is accepted: no version covers them, and later steps obey them.
- The body is never covered: OSS has UNSIGNED-PAYLOAD only.
- Signatures and tokens are compared in constant time; the token only after the signature was right.
- Any region is accepted, for the same reason as with S3 (forebay.protocol.signatures.sigv4).

Version 1 and Signature Version 2 of S3 sign the same text with the same key where a request has neither x-oss-* nor
x-amz-* headers: one signature is valid as the other. They differ only in that S3's path is as it was sent, and OSS's
decoded, which is another key where it has a literal escape (`a%2Fb`). docs/security.md says so to users.

https://www.alibabacloud.com/help/en/oss/developer-reference/recommend-to-use-signature-version-4
"""

import hmac
import re
from base64 import b64encode
from typing import Final, Literal, NamedTuple, assert_never

from forebay.core.errors import S3Error
from forebay.protocol.dates import epoch_seconds, format_iso8601
from forebay.protocol.header_map import Headers, single
from forebay.protocol.signatures import oss_canonical_request as canonical
from forebay.protocol.signatures.canonical_request import NO_TEXT, SignedText, encode_text
from forebay.protocol.signatures.credential_checks import (
    MAX_SKEW,
    check_expiry,
    check_key,
    check_skew,
    check_token,
    equals_in_constant_time,
)
from forebay.protocol.signatures.oss_canonical_request import UNSIGNED_PAYLOAD, header_lines, resource_of
from forebay.protocol.signatures.oss_claim import QUERY_V1, ClaimOssV1, ClaimOssV2, ClaimOssV4, Form, OssClaim
from forebay.protocol.signatures.oss_subresources import is_unambiguous, signed_resource, uncovered
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.target import Target

_PRODUCTS: Final = frozenset({"oss", "oss-cloudbox"})
_CONTENT: Final = ("content-md5", "content-type")
# Secrets in the signed text, which must not be in an error document.
_SECRET: Final = re.compile(
    r"^((?:x-oss-security-token|x-oss-[a-z-]*-customer-key):|.*[?&](?:x-oss-)?security-token=).*$", re.MULTILINE
)


class SignedOss(NamedTuple):
    """A verified signature of OSS. Made by `verify_oss` alone."""

    access_key: str
    version: Literal["V1", "V2", "V4"]
    form: Form
    payload: Literal["UNSIGNED-PAYLOAD"] = UNSIGNED_PAYLOAD
    text: SignedText = NO_TEXT
    """The signed text; of version 4 the canonical request."""


def verify_oss(
    claim: OssClaim, method: str, target: Target, headers: Headers, secret: SecretKey, now: float
) -> SignedOss:
    """The proof that the holder of `secret` signed this request, and that it is still valid.

    `now` is in seconds since the epoch. Raises S3Error: InvalidAccessKeyId, RequestTimeTooSkewed, AccessDenied,
    InvalidArgument, InvalidRequest, SignatureDoesNotMatch, InvalidToken.
    """
    check_key(claim.access_key, secret)
    _check_time(claim, now)
    _check_foreign(target, headers)
    if isinstance(claim, ClaimOssV1):
        _check_coverage(claim, method, target)
    elif isinstance(claim, ClaimOssV4):
        _check_scope(claim)
    text = signed_text(claim, method, target, headers)
    shown = whole = text.whole
    version: Literal["V1", "V2", "V4"]
    match claim:
        case ClaimOssV1():
            version, expected = "V1", _base64(secret, whole, "sha1")
        case ClaimOssV2():
            version, expected = "V2", _base64(secret, whole, "sha256")
        case ClaimOssV4():
            shown = canonical.string_to_sign(claim.timestamp, claim.scope, whole)
            version, expected = "V4", canonical.signature(secret.secret_key, claim.timestamp, claim.scope, whole)
        case _:
            assert_never(claim)
    if not equals_in_constant_time(expected, claim.signature):
        shown = _SECRET.sub(r"\1...", shown)
        raise S3Error("SignatureDoesNotMatch", OSSAccessKeyId=claim.access_key, StringToSign=shown)
    check_token(claim.security_token, secret)
    return SignedOss(claim.access_key, version, claim.form, text=text)


def signed_text(claim: OssClaim, method: str, target: Target, headers: Headers) -> SignedText:
    """The signed text; of version 4 the canonical request.

    Raises S3Error SignatureDoesNotMatch (a signed header is missing), InvalidRequest.
    """
    resource = resource_of(target.bucket, target.key)
    match claim:
        case ClaimOssV1():
            middle = f"{_before_headers(claim.date, headers)}{_oss_lines(headers, ())}"
            return SignedText(method, middle, signed_resource(resource, _without_signature_v1(claim, target)))
        case ClaimOssV2():
            query = canonical.canonical_query(_signed_query(claim, target))
            middle = f"{_before_headers(claim.date, headers)}{_oss_lines(headers, claim.additional)}"
            last = encode_text(resource) + (query and f"?{query}")
            return SignedText(method, f"{middle}{';'.join(claim.additional)}\n", last)
        case ClaimOssV4():
            first = canonical.before_query(method, resource)
            middle = f"{canonical.canonical_query(_signed_query(claim, target))}\n"
            if claim.form == "header":
                first, middle = first + middle, ""
            return SignedText(first, middle + canonical.after_query(_covered_v4(claim, headers), claim.additional))
        case _:
            assert_never(claim)


def _check_time(claim: OssClaim, now: float) -> None:
    moment = epoch_seconds(claim.timestamp) if isinstance(claim, ClaimOssV4) else claim.moment
    if claim.form == "header":
        check_skew(moment, format_iso8601(moment), now)
    elif isinstance(claim, ClaimOssV4):
        check_expiry(moment + (claim.expires or 0), now)
        if moment - now > MAX_SKEW:
            raise S3Error("AccessDenied", "Request is not valid yet", ServerTime=format_iso8601(now))
    else:
        check_expiry(moment, now)


def _check_foreign(target: Target, headers: Headers) -> None:
    for name in (*headers, *(name for name, _ in target.query)):
        if name[:6].lower() == "x-amz-":
            message = "There were S3 headers or query parameters in a request signed for OSS."
            raise S3Error("AccessDenied", message, HeadersNotSigned=name.lower())
    payload = single(headers, "x-oss-content-sha256")
    if payload not in {None, UNSIGNED_PAYLOAD}:
        message = f"x-oss-content-sha256 must be {UNSIGNED_PAYLOAD}."
        raise S3Error("InvalidArgument", message, ArgumentName="x-oss-content-sha256")


def _check_scope(claim: ClaimOssV4) -> None:
    if claim.scope.date != claim.timestamp[:8]:
        message = "The date of the credential is not that of the request's timestamp."
    elif claim.scope.product not in _PRODUCTS:
        message = 'The product of the credential must be "oss".'
    else:
        return
    raise S3Error("InvalidArgument", message, ArgumentName="Credential")


def _check_coverage(claim: ClaimOssV1, method: str, target: Target) -> None:
    query = _without_signature_v1(claim, target)
    name = uncovered(method, query)
    if name is not None:
        message = "A query parameter is not covered by Signature Version 1."
        raise S3Error("AccessDenied", message, ParameterNotSigned=name)
    if not is_unambiguous(resource_of(target.bucket, target.key), query):
        message = "Signature Version 1 can't tell this key or value from a sub-resource; please sign with Version 4."
        raise S3Error("AccessDenied", message)


def _without_signature_v1(claim: ClaimOssV1, target: Target) -> tuple[tuple[str, str], ...]:
    """The query without the URL's signature fields."""
    if claim.form == "header":
        return target.query
    return tuple(pair for pair in target.query if pair[0] not in QUERY_V1)


def _covered_v4(claim: ClaimOssV4, headers: Headers) -> dict[str, str]:
    covered = _covered(headers, claim.additional)
    for name in _CONTENT:
        if name in headers:
            covered[name] = single(headers, name) or ""
    return covered


def _signed_query(claim: OssClaim, target: Target) -> list[tuple[str, str]]:
    return [pair for pair in target.query if not (claim.form == "query" and pair[0] == "x-oss-signature")]


def _before_headers(date: str, headers: Headers) -> str:
    content = [single(headers, name) or "" for name in _CONTENT]
    return "\n".join(("", *content, date, ""))


def _oss_lines(headers: Headers, additional: tuple[str, ...]) -> str:
    return header_lines(_covered(headers, additional))


def _covered(headers: Headers, additional: tuple[str, ...]) -> dict[str, str]:
    """The x-oss-* headers and the additional ones: lower-case names to trimmed values."""
    covered = {name.lower(): value.strip(" \t") for name, value in headers.items() if name[:6].lower() == "x-oss-"}
    for name in additional:
        value = single(headers, name)
        if value is None:
            # An absent header is not an empty one: the client sent it, and it was removed on the way.
            raise S3Error("SignatureDoesNotMatch", f"The signed header {name} is not in the request.")
        covered[name] = value
    return covered


def _base64(secret: SecretKey, text: str, digest: str) -> str:
    key, signed = secret.secret_key.encode("utf-8", "surrogateescape"), text.encode("utf-8", "surrogateescape")
    return b64encode(hmac.digest(key, signed, digest)).decode("ascii")
