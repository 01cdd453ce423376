"""The HTTP proxy between a client and its server, from the variables that boto3 and curl read.

    http://server     HTTP_PROXY     GET http://server/bucket/key      the proxy sees the request
    https://server    HTTPS_PROXY    CONNECT server:443                and, of this, the name alone
    NO_PROXY          names that are reached without: *, a host, a domain with all below it, each with or without a port

The small letters' variables come first. A server on this machine, as Forebay is, is always reached without. A way past
HTTP (Forebay's socket) has no proxy.

https://www.rfc-editor.org/rfc/rfc9110#section-3.7
"""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from forebay_client.client_errors import ClientConfigurationError


@dataclass(frozen=True, slots=True)
class HttpProxy:
    """The address of a proxy."""

    host: str
    port: int
    authorization: str | None = field(default=None, repr=False)
    """The Proxy-Authorization header, of a URL with a user."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the proxy is sent."""
        return {} if self.authorization is None else {"proxy-authorization": self.authorization}


def find_proxy(scheme: str, host: str, port: int, environ: Mapping[str, str]) -> HttpProxy | None:
    """The proxy for a server; None: there is none between. Raises ClientConfigurationError for an unusable one."""
    name = f"{scheme}_proxy"
    text = environ.get(name) or environ.get(name.upper())
    bypassed = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if not text or _is_local(host) or _is_bypassed(host, port, bypassed):
        return None
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        number = parts.port
    except ValueError:
        number = 0
    if parts.scheme != "http" or not parts.hostname or number == 0:
        # Not repeated: it may hold a password.
        raise ClientConfigurationError(f"{name.upper()} is a URL such as http://proxy:3128")
    authorization = None
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(user.encode()).decode()}"
    return HttpProxy(parts.hostname, number or 80, authorization)


def _is_local(host: str) -> bool:
    host = host.lower()
    return host in {"localhost", "::1"} or host.endswith(".localhost") or host.startswith("127.")


def _is_bypassed(host: str, port: int, names: str) -> bool:
    host = host.lower()
    for each in names.lower().split(","):
        name = each.strip().removeprefix(".")
        if name == "*":
            return True
        if name and any(full == name or full.endswith(f".{name}") for full in (host, f"{host}:{port}")):
            return True
    return False
