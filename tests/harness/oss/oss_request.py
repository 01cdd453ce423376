"""A parsed OSS request: read by OSS's rules and translated for the S3 fake that performs it.

Strict where the service is known to be, and where it is not known: what a client might get away with is refused.
https://www.alibabacloud.com/help/en/oss/developer-reference/list-of-operations-by-function
"""

import re
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from multidict import CIMultiDict, CIMultiDictProxy

from harness.fake.errors import Refusal
from harness.fake.s3_request import S3Request, operation_of

_BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
_MOST_KEY_BYTES = 1023
# OSS's request headers; anything else that begins with x-oss- is a mistake of the client.
_KNOWN = frozenset(
    (
        "acl",
        "object-acl",
        "content-sha256",
        "date",
        "security-token",
        "storage-class",
        "forbid-overwrite",
        "metadata-directive",
        "copy-source",
        "copy-source-if-match",
        "copy-source-if-none-match",
        "copy-source-if-modified-since",
        "copy-source-if-unmodified-since",
        "copy-source-range",
        "tagging",
        "tagging-directive",
        "range-behavior",
        "request-payer",
        "server-side-encryption",
        "server-side-encryption-key-id",
    )
)
_NAMED = {"object-acl": "acl", "forbid-overwrite": None, "range-behavior": None, "date": None, "content-sha256": None}
CLASSES = {"Standard": "STANDARD", "IA": "STANDARD_IA", "Archive": "GLACIER", "ColdArchive": "DEEP_ARCHIVE"}


@dataclass(frozen=True, slots=True)
class OssRequest(S3Request):
    """`headers` are in the terms of the S3 fake; `sent` are those of the wire."""

    sent: CIMultiDictProxy[str]
    virtual: bool
    """Whether the bucket stood in the host name."""


def parse(method: str, target: str, sent: CIMultiDictProxy[str], domain: str) -> OssRequest:
    """Never refuses: `check` does."""
    raw_path, _, raw_query = target.partition("?")
    host = sent.get("Host", "").partition(":")[0]
    virtual = host.endswith(f".{domain}")
    bucket = host.removesuffix(f".{domain}") if virtual else None
    key = unquote(raw_path.removeprefix("/")) or None
    query: dict[str, str] = {}
    for pair in raw_query.split("&") if raw_query else ():
        name, _, value = pair.partition("=")
        query.setdefault(unquote_plus(name), unquote_plus(value))
    headers = CIMultiDictProxy(_in_s3(sent))
    operation = operation_of(method, bucket, key, query, "x-oss-copy-source" in sent)
    return OssRequest(method, target, raw_path, raw_query, bucket, key, query, headers, operation, sent, virtual)


def _in_s3(sent: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    headers = CIMultiDict[str]()
    for name, value in sent.items():
        lower = name.lower()
        bare = lower.removeprefix("x-oss-")
        if bare == lower:
            headers.add(name, value.swapcase() if lower in {"if-match", "if-none-match"} else value)
        elif (named := _NAMED.get(bare, bare)) is not None:
            headers.add(f"x-amz-{named}", _value(bare, value))
    if sent.get("x-oss-forbid-overwrite") == "true":
        headers["If-None-Match"] = "*"
    headers.popall("If-Range", None)  # unknown to OSS
    return headers


def _value(bare: str, value: str) -> str:
    match bare:
        case "copy-source-if-match" | "copy-source-if-none-match":
            # The store's ETags are in lower case; OSS's are in upper case, and compared as they are.
            return value.swapcase()
        case "storage-class":
            return CLASSES.get(value, value)
        case "tagging-directive":
            return value.upper()
        case _:
            return value


def check(s3_request: OssRequest) -> None:
    """Refusal: what OSS would not take, whoever asks."""
    sent = s3_request.sent
    if not s3_request.virtual and s3_request.key is not None:
        message = "The bucket you are attempting to access must be addressed using OSS third level domain."
        raise Refusal("SecondLevelDomainForbidden", message)
    for name, value in sent.items():
        lower = name.lower()
        if lower.startswith("x-amz-") or "aws-chunked" in value:
            raise Refusal("InvalidArgument", f"OSS does not know {name}: {value}", ArgumentName=name)
        bare = lower.removeprefix("x-oss-")
        if bare != lower and bare not in _KNOWN and not bare.startswith("meta-"):
            raise Refusal("InvalidArgument", f"OSS does not know {name}", ArgumentName=name)
    if "Date" not in sent and "x-oss-date" not in sent:  # the vendor's own oss2 sends the latter alone
        raise Refusal("AccessDenied", "OSS authentication requires a valid Date.")
    if s3_request.method in {"PUT", "POST"} and not {"Content-Length", "Transfer-Encoding"} & {
        each.title() for each in sent
    }:
        raise Refusal("MissingContentLength", "You must provide the Content-Length HTTP header.")
    if s3_request.bucket is not None and not _BUCKET.fullmatch(s3_request.bucket):
        raise Refusal("InvalidBucketName", "The specified bucket is not valid.")
    if s3_request.key is not None and (s3_request.key[0] in "/\\" or len(s3_request.key.encode()) > _MOST_KEY_BYTES):
        raise Refusal("InvalidObjectName", "The specified object is not valid.")
    if s3_request.operation in {"GetObject", "HeadObject"} and "partNumber" in s3_request.query:
        raise Refusal("InvalidArgument", "OSS reads no parts.", ArgumentName="partNumber")
    if s3_request.operation == "HeadBucket":
        raise Refusal("MethodNotAllowed", "The specified method is not allowed against this resource.")
    if sent.get("x-oss-storage-class", "Standard") not in {*CLASSES, "DeepColdArchive"}:
        raise Refusal("InvalidArgument", "no such storage class", ArgumentName="x-oss-storage-class")
    if sent.get("x-oss-acl", sent.get("x-oss-object-acl", "private")) not in {
        "default", "private", "public-read", "public-read-write",
    }:  # fmt: skip
        raise Refusal("InvalidArgument", "no such bucket access control exists", ArgumentName="x-oss-acl")
    for name in ("max-keys", "max-uploads", "max-parts"):
        limit = s3_request.query.get(name, "1")
        if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
            raise Refusal("InvalidArgument", f"Argument {name} must be an integer between 1 and 1000.")
