"""The origin's endpoint, and the URLs of buckets and keys on it.

The host comes from the configuration, and with virtual-hosted addressing from a bucket name that is a DNS label;
nothing else a client sends gets into it. Paths are percent-encoded here, once, and sent as they are (`yarl` gets
them as encoded): `a//b`, `..` and `%2F` are names like any other.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address
from typing import Final, NamedTuple

from yarl import URL

from forebay.core.errors import S3Error, SettingsError
from forebay.origin.dialects import Dialect
from forebay.protocol.signatures.canonical_request import canonical_query, encode_path
from forebay.protocol.signatures.oss_canonical_request import canonical_query as canonical_oss_query

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
_DNS_BUCKET: Final = re.compile(r"[a-z0-9]([a-z0-9-]{1,61}|[a-z0-9.-]{1,61})[a-z0-9]")
# https://www.alibabacloud.com/help/en/oss/user-guide/bucket-naming-conventions. `s3` is too short to be
# one: a host that begins with it is the endpoint of OSS's other protocol.
_OSS_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")
# `s3`, `s3-fips`, `s3.dualstack` ..., with or without a region. No endpoint of a VPC, which serves one region.
_AWS_SERVICE: Final = re.compile(
    r"s3(?P<kind>(?:-fips)?(?:\.dualstack)?)(?:\.[a-z]{2}(?:-[a-z]+)+-\d+)?(?P<domain>\.amazonaws\.com(?:\.cn)?)"
)
_AWS_HOSTS: Final = (".amazonaws.com", ".amazonaws.com.cn")

QueryPairs = tuple[tuple[str, str], ...]


class ServerAddress(NamedTuple):
    """The server that a connection leads to."""

    host: str
    port: int
    secure: bool


class RequestUrl(NamedTuple):
    """The URL of a request, signed and sent in exactly this form."""

    scheme: str
    host: str
    """The value of the Host header: with a port, unless it is the scheme's own."""
    raw_path: str
    target: str
    """The path and the query."""

    @property
    def yarl(self) -> URL:
        """The endpoint as aiohttp needs it. Made once, as making it costs as much as signing a request."""
        return URL(f"{self.scheme}://{self.host}{self.target}", encoded=True)

    @property
    def server(self) -> ServerAddress:
        """The server to connect to."""
        return _server_address(self.scheme, self.host)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked endpoint URL: scheme, host and port, nothing else."""

    scheme: str
    authority: str
    """Host and port; no port when it is the scheme's own: the form of the Host header."""
    virtual: bool
    """Whether buckets may be in the host name."""
    oss: bool = False
    """Whether buckets are in the host name and nowhere else, and queries are written as OSS signs them."""

    @property
    def is_global(self) -> bool:
        """Whether it is Amazon's endpoint for buckets of all regions."""
        return self.authority == "s3.amazonaws.com"

    def authority_in(self, region: str) -> str:
        """The authority of the same service in `region`: of Amazon's endpoints the one of that region, of the same
        kind and partition; of any other host, and in another partition, the authority itself."""
        found = _AWS_SERVICE.fullmatch(self.authority)
        if found is None or (found["domain"].endswith(".cn")) is not region.startswith("cn-"):
            return self.authority
        return f"s3{found['kind']}.{region}{found['domain']}"

    def url_of(self, bucket: str | None, key: str | None, query: QueryPairs, region: str | None = None) -> RequestUrl:
        """The URL of `key` in `bucket`; without a key the bucket's, with neither the service's. `region`: of the
        bucket, if it is another than the endpoint's.

        S3Error InvalidBucketName: a name that the origin can't have.
        """
        host, path = self.authority if region is None else self.authority_in(region), "/"
        if bucket is not None:
            if self.oss and not _OSS_BUCKET.fullmatch(bucket):
                raise S3Error("InvalidBucketName", BucketName=bucket)
            if self.oss or (self.virtual and self._fits_in_host(bucket)):
                host = f"{bucket}.{host}"
            else:
                path = _bucket_path(bucket)
                if key is not None:
                    path += "/"
            if key is not None:
                path += encode_path(key)
        write = canonical_oss_query if self.oss else canonical_query
        target = f"{path}?{write(query)}" if query else path
        return RequestUrl(self.scheme, host, path, target)

    def _fits_in_host(self, bucket: str) -> bool:
        if "." in bucket and self.scheme == "https":
            return False  # a wildcard certificate covers one label
        return _DNS_BUCKET.fullmatch(bucket) is not None and ".." not in bucket


def parse_endpoint(url: URL | str, dialect: Dialect) -> Endpoint:
    """The endpoint at `url`. SettingsError when it is more, or less, than `http[s]://host[:port]`."""
    allowed = "http://host[:port] or https://host[:port]"
    try:
        parsed = URL(url) if isinstance(url, str) else url
        authority = parsed.host_port_subcomponent
    except ValueError:
        raise SettingsError("origin.endpoint", url, allowed) from None
    if parsed.scheme not in {"http", "https"} or authority is None or parsed.host is None:
        raise SettingsError("origin.endpoint", str(parsed.with_user(None)) if authority else str(url), allowed)
    if parsed.raw_user is not None or parsed.raw_password is not None:
        raise SettingsError("origin.endpoint", str(parsed.with_user(None)), f"{allowed}, without credentials")
    if parsed.raw_path not in {"", "/"} or parsed.raw_query_string or parsed.raw_fragment:
        raise SettingsError("origin.endpoint", str(parsed), f"{allowed}, without a path")
    virtual = dialect.addressing == "virtual" and parsed.host.endswith(_AWS_HOSTS) and not _is_ip(parsed.host)
    oss = dialect.addressing == "host"
    if oss and _is_ip(parsed.host):
        raise SettingsError("origin.endpoint", str(parsed), "a host name, since buckets stand before it")
    return Endpoint(parsed.scheme, authority, virtual or oss, oss)


@lru_cache(maxsize=256)
def _bucket_path(bucket: str) -> str:
    return f"/{encode_path(bucket).replace('/', '%2F')}"  # a bucket never reaches into the key


@lru_cache(maxsize=256)  # with buckets in the host there may be many
def _server_address(scheme: str, host: str) -> ServerAddress:
    url = URL(f"{scheme}://{host}", encoded=True)
    return ServerAddress(url.host or "", url.port or 0, scheme == "https")


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
