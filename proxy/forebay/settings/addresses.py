"""Addresses to listen on, and the origin's endpoint: parsing and comparing."""

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
class ListenAddress:
    """A TCP address to listen on. Port 0 takes any free one."""

    host: str
    """An IP address, without brackets, or a name."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it. False for every name but `localhost`: it may resolve to anything."""
        if self.host == "localhost":
            return True
        try:
            return (IPv6Address(self.host) if ":" in self.host else IPv4Address(self.host)).is_loopback
        except AddressValueError:
            return False

    def overlaps(self, other: "ListenAddress") -> bool:
        """Whether binding one excludes binding the other. Port 0 excludes nothing."""
        if self.port != other.port or self.port == 0:
            return False
        hosts = {_LOOPBACK_NAMES.get(address.host.lower(), address.host.lower()) for address in (self, other)}
        # Linux lets `::` take IPv4's port as well.
        return len(hosts) == 1 or not hosts.isdisjoint(_ANY)


def parse_address(text: str) -> ListenAddress:
    """The listen address in `host:port`. Raises ValueError with the allowed forms."""
    host, colon, port = text.rpartition(":")
    if not colon or not _PORT.fullmatch(port) or int(port) > 65535:
        raise ValueError(ADDRESSES_ALLOWED)
    if host.startswith("[") and host.endswith("]"):
        try:
            return ListenAddress(str(IPv6Address(host[1:-1])), int(port))
        except AddressValueError:
            raise ValueError(ADDRESSES_ALLOWED) from None
    if not is_domain(host):
        raise ValueError(ADDRESSES_ALLOWED)
    return ListenAddress(host, int(port))


def parse_endpoint(text: str) -> str:
    """The origin's URL without a final slash.

    Raises ValueError with the allowed forms, never with `text`: it may contain a password.
    """
    # urlsplit silently drops such characters, so they are refused first.
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(ENDPOINTS_ALLOWED)
    try:
        url = urlsplit(text)
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
        or "?" in text
        or "#" in text
    ):
        raise ValueError(ENDPOINTS_ALLOWED)
    return text.rstrip("/")


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
