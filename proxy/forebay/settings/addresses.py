"""Where Forebay listens, and where the origin is."""

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final
from urllib.parse import urlsplit

ADDRESSES_ALLOWED: Final = "host:port, such as 127.0.0.1:9000, 0.0.0.0:9000 or [::1]:9000"
ENDPOINTS_ALLOWED: Final = "http:// or https://, a host, and a port if it is not the usual one; no user, path or query"
DOMAINS_ALLOWED: Final = "domain names, such as forebay.internal"

_LABEL: Final = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)
_ANY: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 # compared with, not bound
_LOOPBACK_NAMES: Final = {"localhost": "127.0.0.1"}
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """A TCP address to listen on. Port 0 takes any free one."""

    host: str
    """An IP address, without brackets, or a name."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it. A name other than `localhost` may mean anything, so: no."""
        if self.host == "localhost":
            return True
        try:
            return (IPv6Address(self.host) if ":" in self.host else IPv4Address(self.host)).is_loopback
        except AddressValueError:
            return False

    def overlaps(self, other: "Address") -> bool:
        """Whether the two can't both be listened on. Port 0 is never in the way of anything."""
        if self.port != other.port or self.port == 0:
            return False
        hosts = {_LOOPBACK_NAMES.get(address.host.lower(), address.host.lower()) for address in (self, other)}
        # Linux lets `::` take IPv4's port as well.
        return len(hosts) == 1 or not hosts.isdisjoint(_ANY)


def parse_address(given: str) -> Address:
    """Raises ValueError with what is allowed."""
    host, colon, port = given.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) > 65535:
        raise ValueError(ADDRESSES_ALLOWED)
    if host.startswith("[") and host.endswith("]"):
        try:
            return Address(str(IPv6Address(host[1:-1])), int(port))
        except AddressValueError:
            raise ValueError(ADDRESSES_ALLOWED) from None
    if not is_domain(host):
        raise ValueError(ADDRESSES_ALLOWED)
    return Address(host, int(port))


def parse_endpoint(given: str) -> str:
    """The origin's URL without a final slash. Raises ValueError with what is allowed, never with what was given: a
    password may have been put into it."""
    # urlsplit drops what it does not like; so that is looked for first.
    if not given.isascii() or not given.isprintable() or " " in given:
        raise ValueError(ENDPOINTS_ALLOWED)
    try:
        url = urlsplit(given)
        host, port = url.hostname or "", url.port
        if ":" in host:
            IPv6Address(host)
    except ValueError:
        raise ValueError(ENDPOINTS_ALLOWED) from None
    known = url.scheme in {"http", "https"} and (":" in host or is_domain(host)) and port != 0
    if (
        not known
        or "@" in url.netloc
        or url.netloc.endswith(":")
        or url.path not in {"", "/"}
        or "?" in given
        or "#" in given
    ):
        raise ValueError(ENDPOINTS_ALLOWED)
    return given.rstrip("/")


def host_of(endpoint: str) -> str:
    """The host of a parsed endpoint, in lower case, without port and brackets."""
    return urlsplit(endpoint).hostname or ""


def port_of(endpoint: str) -> int:
    """The port of a parsed endpoint, the scheme's own where it names none."""
    url = urlsplit(endpoint)
    return url.port or (443 if url.scheme == "https" else 80)


def is_domain(text: str) -> bool:
    """Whether `text` could be a DNS name (an IPv4 address could)."""
    return len(text) <= 253 and _NAME.fullmatch(text) is not None
