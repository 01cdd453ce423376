"""Hoisted headers: headers in the query of a presigned URL.

Signers of presigned URLs move x-amz-* headers into the query (`x-amz-acl`, `x-amz-meta-*`, `x-amz-checksum-crc32`),
where the signature covers them; S3 then treats them as headers. So does Forebay: `hoist_query_headers` returns the
request as if they were headers, without the signature's own parameters. The signature covers the request as received,
so verification comes first; all later steps use the result.

In other requests a query parameter is never a header.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
"""

from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.protocol.forwarded_headers import SIGNATURE_QUERY
from forebay.protocol.header_line import can_be_header
from forebay.protocol.header_map import Headers
from forebay.protocol.signatures.sigv2 import is_hoisted_header
from forebay.protocol.target import Target

_VERSION_4: Final = "X-Amz-Signature"
_VERSION_2: Final = "Signature"


def hoist_query_headers(target: Target, headers: Headers) -> tuple[Target, Headers]:
    """Returns target and headers with the hoisted headers of a presigned URL moved back; other requests unchanged.

    Raises S3Error InvalidArgument for an invalid header, and for a header that is repeated with another value.
    """
    if not target.query:
        return target, headers
    names = {name for name, _ in target.query}
    if _VERSION_4 not in names and _VERSION_2 not in names:
        return target, headers
    all_headers = CIMultiDict(headers.items())
    query = []
    for name, value in target.query:
        lower = name.lower()
        if lower in SIGNATURE_QUERY:
            continue
        if lower.startswith("x-amz-") or (_VERSION_2 in names and is_hoisted_header(name)):
            _add_header(all_headers, lower, value.strip(" \t"))
        else:
            query.append((name, value))
    return target._replace(query=tuple(query)), CIMultiDictProxy(all_headers)


def _add_header(headers: CIMultiDict[str], name: str, value: str) -> None:
    if not can_be_header(name, value):
        raise S3Error("InvalidArgument", "A query parameter that stands for a header can't be one.", ArgumentName=name)
    values = headers.getall(name, [])
    if not values:
        headers[name] = value
    elif any(each.strip(" \t") != value for each in values):
        raise S3Error("InvalidArgument", f"{name} differs between header and query.", ArgumentName=name)
