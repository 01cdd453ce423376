"""A parsed S3 request: request line, headers, and the API name of the operation.

The raw target is decoded once. Path style, or virtual-hosted style for hosts under the fake's `domain`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote, unquote_plus

from multidict import CIMultiDictProxy

from harness.fake.errors import Refusal

_BUCKET_READS: Mapping[str, str] = {
    "acl": "GetBucketAcl",
    "cors": "GetBucketCors",
    "location": "GetBucketLocation",
    "tagging": "GetBucketTagging",
    "uploads": "ListMultipartUploads",
    "versioning": "GetBucketVersioning",
    "versions": "ListObjectVersions",
}
_BUCKET_WRITES: Mapping[str, str] = {
    "acl": "PutBucketAcl",
    "cors": "PutBucketCors",
    "tagging": "PutBucketTagging",
    "versioning": "PutBucketVersioning",
}
# Sub-resources of S3 that the fake lacks: they must be refused, never taken for the plain operation.
_UNKNOWN = frozenset(
    [
        "accelerate",
        "analytics",
        "encryption",
        "intelligent-tiering",
        "inventory",
        "legal-hold",
        "lifecycle",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "ownershipControls",
        "policy",
        "policyStatus",
        "publicAccessBlock",
        "replication",
        "requestPayment",
        "restore",
        "retention",
        "select",
        "torrent",
        "website",
    ]
)


@dataclass(frozen=True, slots=True)
class S3Request:
    method: str
    target: str
    """As received."""
    raw_path: str
    raw_query: str
    bucket: str | None
    key: str | None
    query: Mapping[str, str]
    headers: CIMultiDictProxy[str]
    operation: str

    @property
    def range(self) -> str | None:
        return self.headers.get("Range")


def limit_of(s3_request: S3Request, name: str, default: int = 1000, most: int = 1000) -> int:
    """A number in the query. Refusal: InvalidArgument."""
    text = s3_request.query.get(name) or str(default)
    if not text.isdecimal():
        raise Refusal("InvalidArgument", f"Provided {name} not an integer or within integer range")
    return min(int(text), most)


def operation_of(method: str, bucket: str | None, key: str | None, query: Mapping[str, str], copied: bool) -> str:
    if not query.keys().isdisjoint(_UNKNOWN):
        return "Unknown"
    if bucket is None:
        return "ListBuckets" if method in {"GET", "HEAD"} else "Unknown"
    if key is None:
        match method:
            case "POST" if "delete" not in query:
                return "PostObject"
            case "HEAD":
                return "HeadBucket"
            case "GET":
                named = next((_BUCKET_READS[name] for name in query if name in _BUCKET_READS), None)
                return named or ("ListObjectsV2" if query.get("list-type") == "2" else "ListObjects")
            case "PUT":
                return next((_BUCKET_WRITES[name] for name in query if name in _BUCKET_WRITES), "CreateBucket")
            case "DELETE":
                return (
                    "DeleteBucketCors"
                    if "cors" in query
                    else "DeleteBucketTagging"
                    if "tagging" in query
                    else "DeleteBucket"
                )
            case "POST":
                return "DeleteObjects"
        return "Unknown"
    match method:
        case "HEAD":
            return "HeadObject"
        case "GET" if "uploadId" in query:
            return "ListParts"
        case "PUT" if "uploadId" in query or "partNumber" in query:
            return "UploadPartCopy" if copied else "UploadPart"
        case "DELETE" if "uploadId" in query:
            return "AbortMultipartUpload"
        case "POST" if "uploads" in query:
            return "CreateMultipartUpload"
        case "POST" if "uploadId" in query:
            return "CompleteMultipartUpload"
        case "PUT" | "DELETE" if "attributes" in query:
            return "Unknown"
        case "PUT" if copied and "tagging" not in query and "acl" not in query:
            return "CopyObject"
        case "GET" | "PUT" | "DELETE":
            kinds = {"tagging": "Tagging", "acl": "Acl"} | ({"attributes": "Attributes"} if method == "GET" else {})
            kind = next((named for name, named in kinds.items() if name in query), "")
            return f"{method.capitalize()}Object{kind}"
    return "Unknown"


def parse(method: str, target: str, headers: CIMultiDictProxy[str], domain: str | None) -> S3Request:
    raw_path, _, raw_query = target.partition("?")
    path = raw_path.removeprefix("/")
    host = headers.get("Host", "").rpartition(":")[0] or headers.get("Host", "")
    if domain is not None and host.endswith(f".{domain}"):
        bucket, raw_key = host.removesuffix(f".{domain}"), path
    else:
        raw_bucket, _, raw_key = path.partition("/")
        bucket = unquote(raw_bucket)
    query: dict[str, str] = {}
    for pair in raw_query.split("&") if raw_query else ():
        name, _, value = pair.partition("=")
        query.setdefault(unquote_plus(name), unquote_plus(value))
    named, key = bucket or None, unquote(raw_key) or None
    operation = operation_of(method, named, key, query, "x-amz-copy-source" in headers)
    return S3Request(method, target, raw_path, raw_query, named, key, query, headers, operation)
