"""The target of a request: the service, a bucket or an object, and the query.

    GET /bucket/a%2Fb?versionId=1            path style
    GET /a%2Fb?versionId=1  Host: bucket.d   virtual-hosted style, for a configured domain `d`
    GET /a%2Fb?versionId=1  Host: c          for a configured CNAME: a host that stands for one bucket

The raw target is decoded here, once; authorisation, rules, cache and origin all use the result. The values of a Target
are never decoded, normalised or case-folded again.

- The path is split at the first literal `/` of the raw path, before decoding: `%2F` never separates bucket from key.
- `..`, `//`, `\\` and `%2F` have no meaning in a key, because S3 keys are not paths. They are kept byte for byte.
- A `+` in the path is a plus; in the query it is a blank, as in HTML forms.
- Only origin-form (RFC 9112 section 3.2.1) is accepted: absolute-form, authority-form and `*` are refused.
- A bucket name is checked for safety, not against Amazon's rules, because origins have different rules. A name that
  could be mistaken for another part of a URL is refused.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from forebay.core.errors import S3Error
from forebay.core.names import MAX_KEY_BYTES, ObjectName, is_bucket_name

# Visible ASCII without `#`: requests have no fragment, and a server that strips one would see a different key.
_ORIGIN_FORM: Final = re.compile(r"/[!-\"$-~]*")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# A host and a port. A host in brackets is an IPv6 literal, which can't contain a bucket.
# The port may be repeated: boto 2 does so.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:/@?#\\\s]*)(?::([0-9]*)(?::\2)?)?")
_NO_CNAMES: Final[Mapping[str, str]] = MappingProxyType({})


class Target(NamedTuple):
    """The target of a request, decoded once. `raw_path` and `raw_query` are for signatures only."""

    raw_path: str
    """As received, up to the `?`, with its escapes; starts with `/`. Without the bucket in virtual-hosted style."""
    raw_query: str
    """The query as received, without the `?`."""
    bucket: str | None
    """None: the service itself."""
    key: str | None
    """None: the bucket or the service. Never empty."""
    query: tuple[tuple[str, str], ...]
    """The parameters in the order received; `?acl` and `?acl=` both give ("acl", "")."""

    @property
    def name(self) -> ObjectName:
        """The object's name. Raises ValueError if the target has no key."""
        if self.bucket is None or self.key is None:
            raise ValueError("this target is not an object")
        return ObjectName(self.bucket, self.key)

    def param(self, name: str) -> str | None:
        """Returns the first value of the query parameter `name`, or None. Names are case-sensitive."""
        for parameter, value in self.query:
            if parameter == name:
                return value
        return None


def parse_target(raw: str, host: str, domains: Sequence[str], cnames: Mapping[str, str] = _NO_CNAMES) -> Target:
    """Parses `raw`, the target in a request line; `host` is the Host header ("" without one).

    `domains`: domains whose subdomains are buckets. `cnames`: maps hosts, in lower case and without a final dot, to
    their bucket.

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
    """Percent-decodes once, strictly. A `+` stays a plus. Raises S3Error InvalidURI."""
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
    """Returns a valid key unchanged. Raises S3Error InvalidURI if it is empty, KeyTooLongError."""
    if not key:
        raise S3Error("InvalidURI", "The key is empty.")
    # A character has at most four bytes, so most keys need not be encoded.
    if len(key) * 4 > MAX_KEY_BYTES and len(key.encode()) > MAX_KEY_BYTES:
        raise S3Error("KeyTooLongError", MaxSizeAllowed=str(MAX_KEY_BYTES), Size=str(len(key.encode())))
    return key


def check_bucket(bucket: str) -> str:
    """Returns a valid bucket name unchanged. Raises S3Error InvalidBucketName."""
    if not is_bucket_name(bucket):
        raise S3Error("InvalidBucketName", BucketName=bucket)
    return bucket


def parse_query(raw: str) -> tuple[tuple[str, str], ...]:
    """Parses a raw query to its parameters, in order, decoded once. Raises S3Error InvalidURI."""
    parameters = []
    for pair in raw.split("&"):
        if pair:
            name, _, value = pair.replace("+", " ").partition("=")
            parameters.append((decode_path(name), decode_path(value)))
    return tuple(parameters)


def _bucket_of_host(host: str, domains: Sequence[str], cnames: Mapping[str, str]) -> str | None:
    """Returns the bucket in the Host header, or None for path style. A CNAME precedes the longest domain."""
    if not domains and not cnames:
        return None
    found = _HOST.fullmatch(host)
    if found is None or not host.isascii():
        raise S3Error("InvalidURI", "The Host header is not a host with an optional port.")
    # Compared in lower case and without the dot of the DNS root; a bucket name in a host is lower case.
    name = found[1].lower().removesuffix(".")
    bucket = cnames.get(name)
    if bucket is not None:
        return bucket
    longest = ""
    for configured in domains:
        domain = configured.lower()
        if name == domain:
            return None
        if len(domain) > len(longest) and name.endswith(domain) and name[: -len(domain)].endswith("."):
            longest = domain
    return name[: -len(longest) - 1] if longest else None
