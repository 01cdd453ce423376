"""What OSS Signature Version 1 signs of a query, and whether a request is the only one that its signature fits.

    /bucket/key?acl&versionId=x           the resource: decoded, the names that are listed, sorted

Version 1 covers the listed names alone, and clients' lists differ. `COVERED` is all that any of them signs (oss2,
alibabacloud-oss-v2 with what its operations add). A request is verified with the whole list and with no other: each
name in it says what is done or to what, so one that a client's shorter list leaves out is one that anybody could have
added. Where a client sends such a name unsigned (alibabacloud-oss-v2: x-oss-process), OSS itself refuses it too.

Any other name is refused, but for those that page through a listing (`PAGING`), which no client signs.

As the resource is decoded, two requests can have the same: `/b/k%3Facl` and `/b/k?acl`; one value with an `&` in it and
two. Of those that have the same, the one is taken that has the most sub-resources: `unambiguous` is true of it alone.

https://www.alibabacloud.com/help/en/oss/developer-reference/include-signatures-in-the-authorization-header
"""

from collections.abc import Iterable
from typing import Final, TypeAlias

Pairs: TypeAlias = Iterable[tuple[str, str]]

# fmt: off
COVERED: Final = frozenset(
    {
        "MetaQuery", "accessPoint", "accessPointPolicy", "acl", "append", "asyncFetch", "bucketArchiveDirectRead",
        "bucketInfo", "callback", "callback-var", "cleanRestoredObject", "cloudboxes", "cname", "comp",
        "continuation-token", "cors", "dataPipeline", "delete", "encryption", "endTime", "group", "httpsConfig",
        "inventory", "inventoryId", "legalHold", "lifecycle", "link", "live", "location", "logging", "metaQuery",
        "metadataConfiguration", "metadataInventoryTable", "metadataJournalTable", "objectInfo", "objectMeta",
        "objectWorm", "overwriteConfig", "partNumber", "policy", "policyStatus", "position", "publicAccessBlock", "qos",
        "qosInfo", "qosRequester", "quota", "redundancyTransition", "referer", "regionList", "replication",
        "replicationLocation", "replicationProgress", "requestPayment", "requesterQosInfo", "resourceGroup",
        "resourcePool", "resourcePoolBuckets", "resourcePoolInfo", "response-cache-control",
        "response-content-disposition", "response-content-encoding", "response-content-language",
        "response-content-type", "response-expires", "restore", "retention", "rtc", "seal", "security-token",
        "sequential", "startTime", "stat", "status", "style", "styleName", "symlink", "tagging", "transferAcceleration",
        "uploadId", "uploads", "userDefinedLogFieldsConfig", "versionId", "versioning", "versions", "vod", "website",
        "worm", "wormExtend", "wormId", "x-oss-ac-forward-allow", "x-oss-ac-source-ip", "x-oss-ac-subnet-mask",
        "x-oss-ac-vpc-id", "x-oss-access-point-name", "x-oss-async-process", "x-oss-process",
        "x-oss-redundancy-transition-taskid", "x-oss-request-payer", "x-oss-target-redundancy-type",
        "x-oss-traffic-limit", "x-oss-write-get-object-response",
    }
)
"""The query names that are signed."""
PAGING: Final = frozenset(
    {
        "delimiter", "encoding-type", "fetch-owner", "key-marker", "list-type", "marker", "max-keys", "max-parts",
        "max-uploads", "part-number-marker", "prefix", "start-after", "upload-id-marker", "version-id-marker",
    }
)
"""The query names that are not, and are taken all the same: with GET they narrow what a listing tells."""
# fmt: on
_ANYWHERE: Final = frozenset({"encoding-type"})  # how keys are written in the answer, of whatever


def uncovered(method: str, query: Pairs) -> str | None:
    """The first name of the query that Version 1 leaves open and that must not be open."""
    open_names = PAGING if method == "GET" else _ANYWHERE
    return next((name for name, _ in query if name not in COVERED and name not in open_names), None)


def signed_resource(resource: str, query: Pairs) -> str:
    """What is signed of a request for `resource` with the decoded `query`."""
    texts = [f"{name}={value}" if value else name for name, value in sorted(query) if name in COVERED]
    return f"{resource}?{'&'.join(texts)}" if texts else resource


def unambiguous(resource: str, query: Pairs) -> bool:
    """Whether this is the request that is taken, of all those that have the same signed resource."""
    meant = [(name, value) for name, value in sorted(query) if name in COVERED]
    return _parsed(signed_resource(resource, query)) == (resource, meant)


def _parsed(text: str) -> tuple[str, list[tuple[str, str]]]:
    at = text.find("?")
    while at >= 0 and _name(text[at + 1 :]) not in COVERED:
        at = text.find("?", at + 1)
    if at < 0:
        return text, []
    pairs: list[tuple[str, str]] = []
    for piece in text[at + 1 :].split("&"):
        name, equals, value = piece.partition("=")
        if name in COVERED:
            pairs.append((name, value))
        else:
            # Not a name of its own, so it goes with the value in front of it.
            last, before = pairs[-1]
            pairs[-1] = last, f"{before}&{name}{equals}{value}"
    return text[:at], pairs


def _name(text: str) -> str:
    return text.partition("&")[0].partition("=")[0]
