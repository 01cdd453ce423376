"""The sub-resources that OSS Signature Version 1 covers, and whether a request is the only one that its signature fits.

    /bucket/key?acl&versionId=x           the resource: decoded, the covered names, sorted

Version 1 covers only the names in a list, and clients' lists differ. `COVERED` is their union (oss2, and
alibabacloud-oss-v2 with the names that its operations add). A request is always verified with this whole list: each
name in it selects the operation or the object, so a name that a shorter list leaves unsigned could have been added on
the way. Where a client sends such a name unsigned (alibabacloud-oss-v2: x-oss-process), OSS itself refuses it too.

Any other name is refused, except those that page through a listing (`PAGING`), which no client signs.

As the resource is decoded, two requests can have the same: `/b/k%3Facl` and `/b/k?acl`; one value with an `&` in it and
two. Of those, only the one with the most sub-resources is accepted: `is_unambiguous` is true of it alone.

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
"""The query names that version 1 signs."""
PAGING: Final = frozenset(
    {
        "delimiter", "encoding-type", "fetch-owner", "key-marker", "list-type", "marker", "max-keys", "max-parts",
        "max-uploads", "part-number-marker", "prefix", "start-after", "upload-id-marker", "version-id-marker",
    }
)
"""The query names that it does not sign, accepted all the same: with GET they narrow a listing."""
# fmt: on
_ANYWHERE: Final = frozenset({"encoding-type"})  # how keys are written, in any response


def uncovered(method: str, query: Pairs) -> str | None:
    """The first query name that version 1 does not cover and that is not accepted uncovered."""
    open_names = PAGING if method == "GET" else _ANYWHERE
    return next((name for name, _ in query if name not in COVERED and name not in open_names), None)


def signed_resource(resource: str, query: Pairs) -> str:
    """The signed resource of a request for `resource` with the decoded `query`."""
    texts = [f"{name}={value}" if value else name for name, value in sorted(query) if name in COVERED]
    return f"{resource}?{'&'.join(texts)}" if texts else resource


def is_unambiguous(resource: str, query: Pairs) -> bool:
    """Whether this is the accepted request, of all those with the same signed resource."""
    meant = [(name, value) for name, value in sorted(query) if name in COVERED]
    return _parsed(signed_resource(resource, query)) == (resource, meant)


def _parsed(text: str) -> tuple[str, list[tuple[str, str]]]:
    mark = text.find("?")
    while mark >= 0 and _name(text[mark + 1 :]) not in COVERED:
        mark = text.find("?", mark + 1)
    if mark < 0:
        return text, []
    pairs: list[tuple[str, str]] = []
    for piece in text[mark + 1 :].split("&"):
        name, equals, value = piece.partition("=")
        if name in COVERED:
            pairs.append((name, value))
        else:
            # Not a covered name: it belongs to the value before it.
            last, before = pairs[-1]
            pairs[-1] = last, f"{before}&{name}{equals}{value}"
    return text[:mark], pairs


def _name(text: str) -> str:
    return text.partition("&")[0].partition("=")[0]
