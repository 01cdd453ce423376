"""Verification of Signature Version 2, in the header and in presigned URLs.

    METHOD \\n Content-MD5 \\n Content-Type \\n date \\n x-amz-name:value \\n ... /bucket/path?sub-resources

The signature covers less than Version 4: neither Host nor Range, and of the query only the sub-resources. Therefore
Forebay is stricter than S3: a query name is accepted only if the signature covers it or if it is harmless
(`_UNCOVERED`). Otherwise the holder of a presigned URL could turn it into another operation. All sub-resources that
select an operation are covered.

- The path is signed as received, with its percent-encoding, after the bucket if that is in the Host header.
- The values of sub-resources are signed decoded. A name without `=` and a name with an empty value are equivalent;
  clients differ on which they sign, so both are tried. So are a bucket's path with and without its final slash.
- In a presigned URL, x-amz-*, content-type and content-md5 are hoisted headers.
- A body is plain, and unsigned unless x-amz-content-sha256, which is covered like every x-amz-* header, has its hash.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html
"""

import hmac
from base64 import b64encode
from typing import Final, Literal, NamedTuple

from forebay.core.errors import S3Error
from forebay.protocol.dates import format_iso8601
from forebay.protocol.header_map import Headers, single
from forebay.protocol.operation_table import OPERATIONS, SELECTORS
from forebay.protocol.signatures.canonical_request import NO_TEXT, SignedText
from forebay.protocol.signatures.credential_checks import (
    check_expiry,
    check_key,
    check_skew,
    check_token,
    equals_in_constant_time,
    redact_signed_text,
)
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv2_claim import QUERY, ClaimV2
from forebay.protocol.signatures.sigv4_claim import UNSIGNED_PAYLOAD
from forebay.protocol.target import Target, decode_path

# fmt: off
_SUBRESOURCES: Final = frozenset(
    {
        "accelerate", "acl", "analytics", "cors", "defaultObjectAcl", "delete", "inventory", "lifecycle", "location",
        "logging", "metrics", "notification", "object-lock", "partNumber", "policy", "replication", "requestPayment",
        "response-cache-control", "response-content-disposition", "response-content-encoding",
        "response-content-language", "response-content-type", "response-expires", "restore", "select", "select-type",
        "storageClass", "tagging", "torrent", "uploadId", "uploads", "versionId", "versioning", "versions", "website",
    }
)
# fmt: on
# list-type selects between two forms of one listing; no client signs it.
COVERED: Final = _SUBRESOURCES | (SELECTORS - {"list-type"})
"""The query names that the signature covers."""
_UNCOVERED: Final = frozenset({"list-type", "x-id", "id", "annotationName"}).union(
    *(row.optional for row in OPERATIONS)
)
_CONTENT: Final = ("content-md5", "content-type")


class SignedV2(NamedTuple):
    """A verified signature of Version 2; only `verify_v2` makes one."""

    access_key: str
    form: Literal["header", "query"]
    payload: str
    """The declared SHA-256 of the body, or UNSIGNED-PAYLOAD."""
    text: SignedText = NO_TEXT
    """The text that was signed."""


def verify_v2(claim: ClaimV2, method: str, target: Target, headers: Headers, secret: SecretKey, now: float) -> SignedV2:
    """Verifies that the request was signed with `secret` and that the signature is valid at `now`.

    `now`: seconds since the epoch. Raises S3Error: InvalidAccessKeyId, RequestTimeTooSkewed, AccessDenied,
    InvalidArgument, InvalidRequest, SignatureDoesNotMatch, InvalidToken.
    """
    check_key(claim.access_key, secret)
    if claim.form == "query":
        check_expiry(claim.moment, now)
    else:
        check_skew(claim.moment, format_iso8601(claim.moment), now)
    _check_coverage(claim, target)
    likeliest = signed_text(claim, method, target, headers)
    verified = None
    for resource in _resources(target):
        # All are compared, so that the time does not depend on which one matches.
        text = likeliest._replace(last=resource)
        if equals_in_constant_time(sign_v2(secret.secret_key, text.whole), claim.signature):
            verified = text
    if verified is None:
        shown = redact_signed_text(likeliest.first + likeliest.middle) + likeliest.last
        raise S3Error("SignatureDoesNotMatch", AWSAccessKeyId=claim.access_key, StringToSign=shown)
    check_token(claim.security_token, secret)
    return SignedV2(claim.access_key, claim.form, single(headers, "x-amz-content-sha256") or UNSIGNED_PAYLOAD, verified)


def signed_text(claim: ClaimV2, method: str, target: Target, headers: Headers) -> SignedText:
    """Returns the signed text with the likeliest resource. Raises S3Error InvalidArgument, InvalidRequest."""
    return SignedText(method, f"\n{_before_resource(claim, target, headers)}", _resources(target)[0])


def sign_v2(secret_key: str, text: str) -> str:
    """Returns the signature of a text in Base64, as in a header or a form."""
    key, signed = secret_key.encode("utf-8", "surrogateescape"), text.encode("utf-8", "surrogateescape")
    return b64encode(hmac.digest(key, signed, "sha1")).decode("ascii")


def _check_coverage(claim: ClaimV2, target: Target) -> None:
    for name, _ in target.query:
        if name in COVERED or name in _UNCOVERED:
            continue
        if claim.form == "query" and (name in QUERY or is_hoisted_header(name)):
            continue
        message = "A query parameter is not covered by Signature Version 2."
        raise S3Error("AccessDenied", message, ParameterNotSigned=name)


def is_hoisted_header(name: str) -> bool:
    """Whether a query name of a presigned URL is a hoisted header."""
    lower = name.lower()
    return lower.startswith("x-amz-") or lower in _CONTENT


def _before_resource(claim: ClaimV2, target: Target, headers: Headers) -> str:
    """Returns the lines between the method and the resource."""
    amz_headers: dict[str, list[str]] = {}
    for name, value in headers.items():
        lower = name.lower()
        if lower.startswith("x-amz-"):
            amz_headers.setdefault(lower, []).append(value.strip())
    content = {name: single(headers, name) for name in _CONTENT}
    if claim.form == "query":
        for name, value in target.query:
            lower = name.lower()
            if lower.startswith("x-amz-"):
                if lower in amz_headers:
                    raise _duplicate_error(name)
                amz_headers[lower] = [value.strip()]
            elif lower in content:
                if content[lower] not in {None, value.strip()}:
                    raise _duplicate_error(name)
                content[lower] = value.strip()
    lines = [content["content-md5"] or "", content["content-type"] or "", claim.date]
    lines += [f"{name}:{','.join(values)}" for name, values in sorted(amz_headers.items())]
    return "\n".join(lines) + "\n"


def _duplicate_error(name: str) -> S3Error:
    message = "It was given twice: as a header and in the query, or twice there."
    return S3Error("InvalidArgument", message, ArgumentName=name)


def _resources(target: Target) -> list[str]:
    """Returns the equivalent spellings of the resource, the likeliest first."""
    path = target.raw_path
    if target.bucket is not None and len(decode_path(path[1:])) == len(target.key or ""):
        path = f"/{target.bucket}{path}"  # virtual-hosted: the bucket is in the host
    paths = [path]
    if target.bucket is not None and target.key is None:
        paths.append(path.removesuffix("/") if path.endswith("/") else f"{path}/")
    named, bare = [], []
    for raw in target.raw_query.split("&"):
        raw_name, equals, raw_value = raw.replace("+", " ").partition("=")
        name, value = decode_path(raw_name), decode_path(raw_value)
        if name in COVERED:
            named.append((name, f"{name}={value}" if equals else name))
            bare.append((name, f"{name}={value}" if value else name))
    queries = [f"?{'&'.join(text for _, text in sorted(pairs))}" if pairs else "" for pairs in (named, bare)]
    return [path + query for path in paths for query in dict.fromkeys(queries)]
