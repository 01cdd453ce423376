"""URIs of objects and prefixes: `s3://bucket/key`, `oss://bucket/key`, and `forebay://bucket/key`, as fsspec knows this
library. Nothing of a URI is decoded."""

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from forebay_client.client_settings import ClientDialect

SCHEMES: Final = ("s3://", "oss://", "forebay://")


class ObjectUri(NamedTuple):
    """The parts of a URI."""

    scheme: str
    """`s3`, `oss` or `forebay`."""
    bucket: str
    key: str
    """The key of an object, or the prefix of several; may be empty."""


def dialect_of(uri: str) -> "ClientDialect":
    """The protocol in which what a URI names is read, where nobody has said another: OSS's of oss://, else S3's."""
    return "oss" if uri.startswith("oss://") else "s3"


def split_uri(uri: str) -> ObjectUri | None:
    """The parts of a URI that names a bucket; None: it is none."""
    scheme, mark, location = uri.partition("://")
    bucket, _, key = location.partition("/")
    return ObjectUri(scheme, bucket, key) if bucket and scheme + mark in SCHEMES else None
