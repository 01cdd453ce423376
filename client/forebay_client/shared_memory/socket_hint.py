"""The place of Forebay's Unix socket: configured, or hinted at by an endpoint on the same machine.

    socket=, FOREBAY_SOCKET ──> that path
    neither                 ──> OPTIONS at an endpoint on loopback ──> a path ──> is it the endpoint's? ──> that path
                                                                              └── UnusableSocket: HTTP, counted

The server at the endpoint gets the signed requests anyway. Another listener at the path must not get them: it could
send them to the endpoint again. So the socket's listener must be root, this user, or the user that listens at the
endpoint's port, as the kernel says (SO_PEERCRED of the one, /proc/net/tcp of the other); a path alone could have been
planted by anybody, and may be by the time of a later connection: so each connection is checked (`open_socket`). The
endpoint is asked at the first read, and after a failure again a while later.

An endpoint without a hint has no socket to fall back from. One whose hint is of no use (the path is missing in this
container, may not be opened, or is another user's) has: each read that goes over HTTP for that is counted.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from forebay.protocol.channel_frames import CHANNEL_PATH, HINT_HEADER
from forebay_client.client_settings import ClientSettings, ServerUrl
from forebay_client.shared_memory.channel import ClientChannel
from forebay_client.shared_memory.channel_input import ChannelBroken

ASKED_AGAIN: Final = 60.0
"""Seconds after a hint that was missing or not to be believed."""
_TIMEOUT: Final = 2.0
_LISTENING: Final = "0A"
_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


class UnusableSocket(NamedTuple):
    """A socket that the endpoint hints at and this client can't use."""

    reason: str
    """Why, in a word of the list in forebay_client.shared_memory.socket_transport."""


class HintedSocket(NamedTuple):
    """A socket that the endpoint hints at."""

    path: str
    port: int
    """The endpoint's."""


FoundSocket: TypeAlias = str | HintedSocket | UnusableSocket | None
"""A path that the client was told; None: there is no socket."""


class SocketHint:
    """The socket of one client. Used by many threads at once: at worst, two ask."""

    def __init__(self, settings: ClientSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._server, self._clock = settings.server, clock
        self._configured = settings.socket
        self._is_local = settings.server.scheme == "http" and is_loopback(settings.server.host)
        self._found: FoundSocket = None
        self._asked_at: float | None = None

    def __call__(self) -> FoundSocket:
        """The socket; None: there is none."""
        if self._configured is not None:
            return self._configured or None
        if isinstance(self._found, HintedSocket) or not self._is_local:
            return self._found
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASKED_AGAIN:
            self._asked_at = now
            path = _ask(self._server)
            self._found = _checked(path, self._server.port) if path is not None else None
        return self._found


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, without a resolver."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def listening_users(port: int, tables: tuple[Path, ...] = _TABLES) -> Iterator[int]:
    """The users that listen at a TCP port of this network namespace."""
    for table in tables:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                yield int(fields[7])


def _ask(server: ServerUrl) -> str | None:
    from http.client import HTTPConnection, HTTPException  # noqa: PLC0415 # where an endpoint is asked

    connection = HTTPConnection(server.host, server.port, timeout=_TIMEOUT)
    try:
        connection.request("OPTIONS", CHANNEL_PATH)
        path = connection.getresponse().getheader(HINT_HEADER)
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    return path if path is not None and path.startswith("/") else None


def is_of_endpoint(listener: int, own: int, at_the_port: Iterable[int]) -> bool:
    """Whether the user that listens at a socket may get what this user (`own`) has signed for an endpoint, at whose
    port the users `at_the_port` listen."""
    return listener in {0, own, *at_the_port}


def open_socket(found: str | HintedSocket, timeout: float) -> ClientChannel:
    """A channel of a socket; of one that was hinted at only if its listener is the endpoint's. Raises ChannelBroken."""
    if isinstance(found, str):
        return ClientChannel(found, timeout)
    channel = ClientChannel(found.path, timeout)
    if is_of_endpoint(channel.peer_user, os.geteuid(), listening_users(found.port)):
        return channel
    channel.close()
    raise ChannelBroken("not believed")


def _checked(path: str, port: int) -> HintedSocket | UnusableSocket:
    found = HintedSocket(path, port)
    try:
        open_socket(found, _TIMEOUT).close()
    except ChannelBroken as error:
        return UnusableSocket(str(error))
    return found
