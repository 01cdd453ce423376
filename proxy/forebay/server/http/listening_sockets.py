"""Listening sockets, bound before anything else is made: an unavailable address ends the start with a plain message.

A worker among several binds with SO_REUSEPORT. Their supervisor reserves the address: bound, but not listening.
"""

import contextlib
import errno
import socket
from typing import Final

from forebay.core.errors import AddressUnavailable
from forebay.settings.addresses import ListenAddress

BACKLOG: Final = 4096
"""Connections that may wait in the kernel to be accepted."""

_ADVICE: Final = {
    errno.EADDRINUSE: "another program uses it: end that, or choose another address",
    errno.EACCES: "ports below 1024 need a privilege: choose another",
    errno.EADDRNOTAVAIL: "this machine has no such address: choose one that it has, or 0.0.0.0 for all",
    errno.EAFNOSUPPORT: "this machine has no IPv6: choose an IPv4 address",
}


def bind(address: ListenAddress, setting: str, *, shared: bool = False) -> socket.socket:
    """A socket that listens on `address`. `shared`: beside those of other workers. `setting`: for messages.

    Raises AddressUnavailable.
    """
    bound = _bind(address, setting, shared=shared)
    bound.listen(BACKLOG)
    return bound


def reserve(address: ListenAddress, setting: str) -> socket.socket:
    """A socket bound to `address` that does not listen: it keeps the address for workers, which share it, while none of
    them is up. Its getsockname is the address to share.

    Raises AddressUnavailable, also if another node's workers share the address: connections would be mixed.
    """
    with contextlib.closing(_bind(address, setting, shared=False)):
        pass
    return _bind(address, setting, shared=True)


def _bind(address: ListenAddress, setting: str, *, shared: bool) -> socket.socket:
    try:
        family, sockaddr = _resolve(address)
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _unavailable(address, setting, error) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind(sockaddr)
    except OSError as error:
        listening.close()
        raise _unavailable(address, setting, error) from error
    listening.setblocking(False)
    return listening


def _resolve(address: ListenAddress) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The family and socket address. A name with both gets its IPv4 address, where most clients look first."""
    resolved = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    resolved.sort(key=lambda each: each[0] != socket.AF_INET)
    family, _, _, _, sockaddr = resolved[0]
    return family, (str(sockaddr[0]), address.port)


def _unavailable(address: ListenAddress, setting: str, error: OSError) -> AddressUnavailable:
    advice = _ADVICE.get(error.errno or 0, "choose another address")
    if isinstance(error, socket.gaierror):
        advice = "the name leads to no address of this machine: give an IP address"
    variable = f"FOREBAY_{setting.upper().replace('.', '__')}"
    return AddressUnavailable(
        f"{setting}: {address} can't be listened on ({error.strerror}); {advice} ({variable}=HOST:PORT)."
    )
