"""`s3://bucket/prefix`, as people write where something is.

Nothing is decoded and nothing normalised: a key is what stands there, byte for byte. What a location names is a prefix
of keys, not a folder: `s3://b/train` names `train/1` and `training.tar`.
"""

from typing import NamedTuple

SCHEME = "s3://"


class InvalidLocation(ValueError):
    """It isn't one; the message says why, in a sentence."""


class Location(NamedTuple):
    bucket: str
    prefix: str
    """Empty: the whole bucket."""

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.prefix}" if self.prefix else f"{SCHEME}{self.bucket}"


def parse_location(text: str) -> Location:
    """The location that `text` names. BadLocation unless it is `s3://bucket` or `s3://bucket/prefix`."""
    if not text.startswith(SCHEME):
        raise InvalidLocation(f"{text!r} is not a location; one looks like s3://bucket/prefix")
    bucket, _, prefix = text.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise InvalidLocation(f"{text!r} names no bucket; a location looks like s3://bucket/prefix")
    return Location(bucket, prefix)
