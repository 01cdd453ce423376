"""The address of an admin port, as the command line and FOREBAY_ADMIN have it."""

from typing import Final, NamedTuple

DEFAULT_ADDRESS: Final = "127.0.0.1:9001"


class AdminAddress(NamedTuple):
    """The address of the admin port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_admin_address(text: str) -> AdminAddress:
    """The address written as `HOST:PORT` or `[IPV6]:PORT`, or as the URL that `forebay serve` prints, `http://HOST:PORT`.
    Raises ValueError, with a sentence."""
    host, colon, port = text.removeprefix("http://").removesuffix("/").rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host or "/" in host or not host.isprintable() or " " in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"{text!r} is not an address; one looks like {DEFAULT_ADDRESS}")
    return AdminAddress(host, int(port))
