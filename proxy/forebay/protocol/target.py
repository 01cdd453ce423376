"""What a request is aimed at: the service, a bucket, or an object, and with which query.

    GET /bucket/a%2Fb?versionId=1            path style
    GET /a%2Fb?versionId=1  Host: bucket.d   virtual-hosted style, for a configured domain `d`
    GET /a%2Fb?versionId=1  Host: c          for a configured CNAME: a host that stands for one bucket

This is the edge: the raw target is decoded here, once, and authorisation, rules, cache and origin all use the
result. What stands in a Target is never decoded, normalised or case-folded again.

- The path is split on the first literal `/` of the raw path, before decoding: `%2F` never separates bucket from key.
- `..`, `//`, `\\` and `%2F` in a key mean nothing: S3 keys are not paths. They are kept, byte for byte.
- A `+` in the path is a plus; in the query it is a blank, as in HTML forms.
- Only origin-form (RFC 9112 section 3.2.1) is served: absolute-form, authority-form and `*` are refused.
- A bucket name is checked for safety, not for Amazon's rules, as origins differ in theirs; a name that could be
  mistaken for another part of a URL is refused.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final
from urllib.parse import unquote_to_bytes

from forebay.core.errors import S3Error
from forebay.core.names import MAX_KEY_BYTES, ObjectName, is_bucket_name

# Visible ASCII without `#`: a fragment never travels in a request, and who cuts it off would see another key than we.
_ORIGIN_FORM: Final = re.compile(r"/[!-\"$-~]*")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# A host and a port; brackets make it an IPv6 literal, which can't carry a bucket.
# The port may stand there twice: boto 2 writes it so.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@?#\\\s]*)(?::([0-9]*)(?::\2)?)?")
_NO_CNAMES: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is aimed at, decoded once. `raw_path` and `raw_query` are for signatures only."""

    raw_path: str
    """As received, up to the `?`, escapes untouched; starts with `/`. Virtual-hosted, the bucket is not in it."""
    raw_query: str
    """As received, without the `?`."""
    bucket: str | None
    """None: the service itself."""
    key: str | None
    """None: the bucket or the service. Never empty."""
    query: tuple[tuple[str, str], ...]
    """In the order received; `?acl` and `?acl=` both give ("acl", "")."""

    @property
    def name(self) -> ObjectName:
        """The object. Only for a target that has a key; asking another is a mistake of the caller (ValueError)."""
        if self.bucket is None or self.key is None:
            raise ValueError("this target is not an object")
        return ObjectName(self.bucket, self.key)

    def param(self, name: str) -> str | None:
        """The first value of the query parameter `name`, or None. Names are case-sensitive."""
        for found, value in self.query:
            if found == name:
                return value
        return None


def parse_target(raw: str, host: str, domains: Sequence[str], cnames: Mapping[str, str] = _NO_CNAMES) -> Target:
    """The target of a request line `raw`, received with the Host header `host` ("" if there was none).

    `domains`: those whose subdomains are buckets. `cnames`: hosts, in lower case and without a final dot, to the bucket
    that each stands for.

    Raises S3Error: InvalidURI, InvalidBucketName, KeyTooLongError.
    """
    if not _ORIGIN_FORM.fullmatch(raw):
        raise S3Error("InvalidURI", "The request target must be a path, percent-encoded where it is not plain ASCII.")
    raw_path, _, raw_query = raw.partition("?")
    bucket = _bucket_of_host(host, domains, cnames)
    if bucket is not None:
        raw_key = raw_path[1:]
    else:
        raw_bucket, slash, raw_key = raw_path[1:].partition("/")
        bucket = decode_path(raw_bucket) if raw_bucket or slash else None
    if bucket is not None:
        check_bucket(bucket)
    key = check_key(decode_path(raw_key)) if raw_key else None
    return Target(raw_path, raw_query, bucket, key, parse_query(raw_query) if raw_query else ())


def decode_path(raw: str) -> str:
    """Percent-decode, once and strictly. A `+` stays a plus. Raises S3Error InvalidURI."""
    if "%" not in raw:
        return raw
    if _BAD_ESCAPE.search(raw):
        raise S3Error("InvalidURI", "A percent sign must be followed by two hexadecimal digits.")
    try:
        decoded = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "The percent-encoded bytes must be UTF-8.") from None
    if "\0" in decoded:
        raise S3Error("InvalidURI", "A NUL character is not allowed.")
    return decoded


def check_key(key: str) -> str:
    """The key itself. Raises S3Error InvalidURI for an empty one, KeyTooLongError."""
    if not key:
        raise S3Error("InvalidURI", "The key is empty.")
    # A character takes at most four bytes, so most keys need no second look.
    if len(key) * 4 > MAX_KEY_BYTES and len(key.encode()) > MAX_KEY_BYTES:
        raise S3Error("KeyTooLongError", MaxSizeAllowed=str(MAX_KEY_BYTES), Size=str(len(key.encode())))
    return key


def check_bucket(bucket: str) -> str:
    """The bucket name itself. Raises S3Error InvalidBucketName."""
    if not is_bucket_name(bucket):
        raise S3Error("InvalidBucketName", BucketName=bucket)
    return bucket


def parse_query(raw: str) -> tuple[tuple[str, str], ...]:
    """The parameters of a raw query, in order, decoded once. Raises S3Error InvalidURI."""
    parameters = []
    for pair in raw.split("&"):
        if pair:
            name, _, value = pair.replace("+", " ").partition("=")
            parameters.append((decode_path(name), decode_path(value)))
    return tuple(parameters)


def _bucket_of_host(host: str, domains: Sequence[str], cnames: Mapping[str, str]) -> str | None:
    """The bucket that the Host header names, or None for path style. A CNAME wins over a domain, then the longest."""
    if not domains and not cnames:
        return None
    found = _HOST.fullmatch(host)
    if found is None or not host.isascii():
        raise S3Error("InvalidURI", "The Host header is not a host with an optional port.")
    # Compared without case and without the root's dot; where DNS carries a bucket name, it is lower case.
    name = found[1].lower().removesuffix(".")
    bucket = cnames.get(name)
    if bucket is not None:
        return bucket
    longest = ""
    for given in domains:
        domain = given.lower()
        if name == domain:
            return None
        if len(domain) > len(longest) and name.endswith(domain) and name[: -len(domain)].endswith("."):
            longest = domain
    return name[: -len(longest) - 1] if longest else None
