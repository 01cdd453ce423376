"""The settings of a client: its arguments, completed by the environment and the shared files, checked once.

    endpoint     argument > AWS_ENDPOINT_URL_S3 > AWS_ENDPOINT_URL > services section > profile > Amazon's of the region
                 (dialect "oss": argument > OSS_ENDPOINT > those of AWS > Alibaba's of the region)
    region       argument > AWS_REGION > AWS_DEFAULT_REGION > profile > us-east-1
                 (dialect "oss": argument > OSS_REGION > those of AWS > cn-hangzhou)
    proxy        HTTP_PROXY, HTTPS_PROXY, NO_PROXY (forebay_client.http_proxy)
    TLS          AWS_CA_BUNDLE > the profile's ca_bundle > the system's certificates
    checksums    AWS_RESPONSE_CHECKSUM_VALIDATION > the profile's > when_required
    retries      argument > AWS_MAX_ATTEMPTS - 1 > the profile's max_attempts - 1 > 4

https://docs.aws.amazon.com/sdkref/latest/guide/feature-ss-endpoints.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import index
from typing import Final, Literal, SupportsIndex, TypeAlias, get_args
from urllib.parse import SplitResult, urlsplit

from forebay_client.client_credentials import CredentialSource, check_header_text, find_credentials
from forebay_client.client_errors import ClientConfigurationError
from forebay_client.http_proxy import HttpProxy, find_proxy
from forebay_client.shared_profile import SharedProfile, read_profile

ClientDialect: TypeAlias = Literal["s3", "oss"]
AddressingStyle: TypeAlias = Literal["path", "virtual"]

DEFAULT_RETRIES: Final = 4

_LONGEST: Final = 1_000_000
"""Seconds: the most that all timers of a system take."""
_TRUE: Final = frozenset({"true", "1", "yes"})
_VALIDATION: Final = "aws_response_checksum_validation"
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The server's address, checked."""

    scheme: Literal["http", "https"]
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The authority as in a Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}"


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The settings of a client: its arguments, and the defaults that it found."""

    server: ServerUrl
    region: str
    credentials: CredentialSource = field(repr=False)
    dialect: ClientDialect
    addressing: AddressingStyle
    socket: str | None
    """The path of Forebay's Unix socket; None: what the endpoint hints at; empty: never."""
    connections: int
    timeout: float
    """Seconds without any progress of a request."""
    retries: int
    """Attempts after the first."""
    ca_bundle: str | None
    proxy: HttpProxy | None = None
    wants_checksums: bool = False
    """Whether S3 is asked for the checksum of each whole object that is read."""


def resolve_settings(
    *,
    endpoint: str | None,
    access_key: str | None,
    secret_key: str | None,
    session_token: str | None,
    region: str | None,
    profile: str | None,
    dialect: str,
    addressing: str,
    socket: str | os.PathLike[str] | None,
    connections: int,
    timeout: float,
    retries: int | None,
    environ: Mapping[str, str],
) -> ClientSettings:
    """The settings of a client with these arguments. Raises ClientConfigurationError."""
    if dialect not in get_args(ClientDialect):
        raise ClientConfigurationError(f"dialect is 's3' or 'oss', not {dialect!r}")
    if addressing not in get_args(AddressingStyle):
        raise ClientConfigurationError(f"addressing is 'path' or 'virtual', not {addressing!r}")
    connections = _whole("connections", connections, 1)
    retries = None if retries is None else _whole("retries", retries, 0)
    try:
        is_usable = 0 < timeout <= _LONGEST
    except TypeError:
        is_usable = False
    if not is_usable:
        raise ClientConfigurationError(f"timeout is seconds, more than 0 and at most {_LONGEST}; not {timeout!r}")
    shared = read_profile(profile, environ)
    chosen_region = check_header_text("the region", region or _region(dialect, shared, environ))
    server = parse_server_url(endpoint or _endpoint(dialect, chosen_region, shared, environ))
    return ClientSettings(
        server,
        chosen_region,
        find_credentials(access_key, secret_key, session_token, dialect, shared, environ),
        "oss" if dialect == "oss" else "s3",
        # Alibaba's own endpoints know no other.
        "virtual" if addressing == "virtual" or server.host.endswith(".aliyuncs.com") else "path",
        os.fsdecode(socket) if socket is not None else environ.get("FOREBAY_SOCKET"),
        connections,
        timeout,
        retries if retries is not None else _retries(shared, environ),
        environ.get("AWS_CA_BUNDLE") or shared.config.get("ca_bundle"),
        find_proxy(server.scheme, server.host, server.port, environ),
        (environ.get(_VALIDATION.upper()) or shared.config.get(_VALIDATION[4:], "")).lower() == "when_supported",
    )


def parse_server_url(text: str) -> ServerUrl:
    """The server in `http://host:port`. Raises ClientConfigurationError for anything else, a path included."""
    try:
        # urlsplit leaves out what is a line end, wherever it is.
        parts: SplitResult = urlsplit(str(text) if str(text).isprintable() and " " not in str(text) else "")
        port = parts.port
    except ValueError:
        parts, port = SplitResult("", "", "", "", ""), None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ClientConfigurationError("an endpoint is a URL such as http://127.0.0.1:9000")
    if parts.username is not None or parts.path not in {"", "/"} or parts.query or parts.fragment:
        # Not repeated: it may hold a password.
        raise ClientConfigurationError("an endpoint has no user, no path and no query")
    scheme: Literal["http", "https"] = "https" if parts.scheme == "https" else "http"
    return ServerUrl(scheme, parts.hostname, port or _PORTS[scheme])


def _whole(name: str, value: SupportsIndex, least: int) -> int:
    try:
        number = index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ClientConfigurationError(f"{name} is an int, at least {least}; not {value!r}")
    return number


def _retries(shared: SharedProfile, environ: Mapping[str, str]) -> int:
    attempts = environ.get("AWS_MAX_ATTEMPTS") or shared.config.get("max_attempts") or str(1 + DEFAULT_RETRIES)
    if not (attempts.isascii() and attempts.isdecimal()) or int(attempts) < 1:
        raise ClientConfigurationError(f"AWS_MAX_ATTEMPTS, or max_attempts of the profile, is no number: {attempts!r}")
    return int(attempts) - 1


def _region(dialect: str, shared: SharedProfile, environ: Mapping[str, str]) -> str:
    names = ("OSS_REGION",) if dialect == "oss" else ()
    for name in (*names, "AWS_REGION", "AWS_DEFAULT_REGION"):
        if value := environ.get(name):
            return value
    return shared.config.get("region") or ("cn-hangzhou" if dialect == "oss" else "us-east-1")


def _endpoint(dialect: str, region: str, shared: SharedProfile, environ: Mapping[str, str]) -> str:
    if dialect == "oss" and (value := environ.get("OSS_ENDPOINT")):
        return value if "://" in value else f"https://{value}"
    if environ.get("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "").lower() not in _TRUE:
        for value in (
            environ.get("AWS_ENDPOINT_URL_S3"),
            environ.get("AWS_ENDPOINT_URL"),
            shared.services.get("endpoint_url"),
            shared.config.get("endpoint_url"),
        ):
            if value:
                return value
    if dialect == "oss":
        return f"https://oss-{region}.aliyuncs.com"
    domain = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"https://s3.{region}.{domain}"
