"""A location on the command line: `s3://bucket/prefix`, or `oss://bucket/prefix`, which means the same.

Nothing is decoded or normalised: the text after the bucket is the key's, byte for byte. A prefix of keys is no folder:
`s3://b/train` matches `train/1` and `training.tar`.
"""

from typing import NamedTuple

SCHEME = "s3://"
SCHEMES = (SCHEME, "oss://")


class InvalidLocation(ValueError):
    """The text is no location; the message is a sentence."""


class Location(NamedTuple):
    """A bucket, and a prefix of its keys."""

    bucket: str
    prefix: str
    """Empty: the whole bucket."""

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}" if self.prefix else f"{SCHEME}{self.bucket}"


def parse_location(text: str) -> Location:
    """The location that `text` names. InvalidLocation unless it names a bucket."""
    scheme = next((each for each in SCHEMES if text.startswith(each)), None)
    if scheme is None:
        raise InvalidLocation(f"{text!r} is not a location; one looks like s3://bucket/prefix")
    bucket, _, prefix = text.removeprefix(scheme).partition("/")
    if not bucket:
        raise InvalidLocation(f"{text!r} names no bucket; a location looks like s3://bucket/prefix")
    return Location(bucket, prefix)
