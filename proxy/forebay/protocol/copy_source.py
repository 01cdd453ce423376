"""What a copy reads: the x-amz-copy-source header, `bucket/key` or `/bucket/key`, perhaps with `?versionId=...`.

The header is a second way to name an object, so it gets what the target gets: it is decoded once, and what was
authorised is what the origin is told. Servers differ on the `+` (Amazon takes it for a blank, others for a plus) and on
what is escaped, so the header as received is never passed on: `encode_copy_source` writes it anew, unambiguously.

Access point and Outposts ARNs are refused: no grant can be held against what they stand for.

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
    """The object that a copy reads."""

    name: ObjectName
    version_id: str | None
    """None: the current version."""


def parse_copy_source(headers: Headers) -> CopySource | None:
    """The source that a request names, or None if it names none. Raises S3Error InvalidArgument, NotImplemented."""
    given = headers.getall(COPY_SOURCE, [])
    if not given:
        return None
    raw, question, query = given[0].partition("?")
    version = _VERSION.fullmatch(query)
    if len(given) > 1 or (question and version is None):
        raise _malformed(given[0])
    try:
        # SDKs differ on whether slashes are escaped, so here, unlike in a target, the split comes after decoding.
        # And some don't encode at all: an escape that is none stands for itself. The origin is told in our encoding.
        path = _decoded(raw.replace("+", " ")).removeprefix("/")
        version_id = decode_path(version[1]) if version is not None else None
        bucket, _, key = path.partition("/")
        if not bucket.lower().startswith("arn:"):
            return CopySource(ObjectName(check_bucket(bucket), check_key(key)), version_id)
    except S3Error as error:
        raise _malformed(given[0]) from error
    raise S3Error("NotImplemented", "A copy source can't be an ARN.")


def _decoded(raw: str) -> str:
    try:
        text = unquote_to_bytes(raw.encode("utf-8", "surrogateescape")).decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "The percent-encoded bytes must be UTF-8.") from None
    if "\0" in text:
        raise S3Error("InvalidURI", "A NUL character is not allowed.")
    return text


def encode_copy_source(source: CopySource) -> str:
    """The header that names `source` to an origin: every server decodes it to the same object."""
    name = f"{quote(source.name.bucket, safe='')}/{quote(source.name.key, safe='/')}"
    return name if source.version_id is None else f"{name}?versionId={quote(source.version_id, safe='')}"


def _malformed(given: str) -> S3Error:
    message = "The copy source must be bucket/key, percent-encoded, with an optional ?versionId=."
    return S3Error("InvalidArgument", message, ArgumentName=COPY_SOURCE, ArgumentValue=given)
