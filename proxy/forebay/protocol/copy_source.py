"""The source of a copy: the x-amz-copy-source header, `bucket/key` or `/bucket/key`, optionally with `?versionId=...`.

The header is a second way to name an object, so the rules of the request target hold: it is decoded once, and the
object that was authorised is the object that the origin copies. Servers differ on the `+` (a blank for Amazon, a plus
for others) and on the escapes, so the header is never forwarded as received: `encode_copy_source` encodes it anew,
unambiguously.

Access point and Outposts ARNs are refused: a grant is for a bucket and a key, which an ARN does not show.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html
"""

import re
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.protocol.header_map import Headers
from forebay.protocol.target import check_bucket, check_key, decode_path

COPY_SOURCE: Final = "x-amz-copy-source"

_VERSION: Final = re.compile(r"versionId=([!-%'-~]+)")


class CopySource(NamedTuple):
    """The source object of a copy."""

    name: ObjectName
    version_id: str | None
    """None: the current version."""


def parse_copy_source(headers: Headers) -> CopySource | None:
    """Parses the copy source of a request; None if it has none. Raises S3Error InvalidArgument, NotImplemented."""
    values = headers.getall(COPY_SOURCE, [])
    if not values:
        return None
    raw, question, query = values[0].partition("?")
    version = _VERSION.fullmatch(query)
    if len(values) > 1 or (question and version is None):
        raise _malformed(values[0])
    try:
        # SDKs differ on whether slashes are escaped, so here, unlike in a target, the split comes after decoding.
        # Some SDKs don't encode at all: an invalid escape stands for itself. The origin gets our own encoding.
        path = _decode_leniently(raw.replace("+", " ")).removeprefix("/")
        version_id = decode_path(version[1]) if version is not None else None
        bucket, _, key = path.partition("/")
        if not bucket.lower().startswith("arn:"):
            return CopySource(ObjectName(check_bucket(bucket), check_key(key)), version_id)
    except S3Error as error:
        raise _malformed(values[0]) from error
    raise S3Error("NotImplemented", "A copy source can't be an ARN.")


def _decode_leniently(raw: str) -> str:
    try:
        text = unquote_to_bytes(raw.encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "The percent-encoded bytes must be UTF-8.") from None
    if "\0" in text:
        raise S3Error("InvalidURI", "A NUL character is not allowed.")
    return text


def encode_copy_source(source: CopySource) -> str:
    """Returns the header value of `source` for an origin; every server decodes it to the same object."""
    name = f"{quote(source.name.bucket, safe='')}/{quote(source.name.key, safe='/')}"
    return name if source.version_id is None else f"{name}?versionId={quote(source.version_id, safe='')}"


def _malformed(value: str) -> S3Error:
    message = "The copy source must be bucket/key, percent-encoded, with an optional ?versionId=."
    return S3Error("InvalidArgument", message, ArgumentName=COPY_SOURCE, ArgumentValue=value)
