"""Open HTTP/1.1 connections to one host, for many threads: the one used last is used next.

    with pool.connection() as lease:      at most `limit` at once; waits for one
        lease.connection ...
        lease.keep()                       else it is closed

A connection that the server has closed while it was idle is recognised before it is used (readable without a request:
nothing but an end can come).
"""

import select
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPSConnection
from queue import Empty, SimpleQueue
from typing import Final

from forebay_client.client_settings import ServerUrl
from forebay_client.http_proxy import HttpProxy
from forebay_client.transport.object_request import TransportFailed, Unreachable
from forebay_client.transport.server_outage import ServerOutage

CONNECT_TIMEOUT: Final = 10.0
_BLOCK: Final = 1 << 20

ConnectionMaker = Callable[[str], HTTPConnection]
"""Makes an unopened connection to the host of this name."""


class ConnectionLease:
    """The use of one connection for one exchange. One that nobody refers to is over: an exception of a signal's handler
    (Ctrl-C) may have come before anybody could end it."""

    __slots__ = ("_free", "connection", "is_kept", "is_reused")

    connection: HTTPConnection

    def __init__(self) -> None:
        self._free: SimpleQueue[None] | None = None
        self.is_kept = self.is_reused = False

    def begin(self, free: "SimpleQueue[None]", timeout: float) -> None:
        """Takes an element of `free`, which it gets back at the end. Raises Empty."""
        free.get(timeout=timeout)
        self._free = free

    def keep(self) -> None:
        """The response was read to its end, and the connection can carry another exchange."""
        self.is_kept = True

    def end(self) -> None:
        """Another connection may be opened in place of this one."""
        free, self._free = self._free, None
        if free is not None:
            free.put(None)

    def __del__(self) -> None:
        if getattr(self, "_free", None) is not None:
            if (connection := getattr(self, "connection", None)) is not None:
                connection.close()
            self.end()


class HttpConnectionPool:
    """The connections to one host."""

    def __init__(self, make: Callable[[], HTTPConnection], limit: int, timeout: float, outage: ServerOutage) -> None:
        """`limit`: connections at once; `timeout`: seconds to wait for one of them, and for progress on it."""
        self._make, self._timeout, self._outage = make, timeout, outage
        self._free = SimpleQueue[None]()
        """A token for each connection that may still be opened. Not a semaphore: that is a lock in Python, which stays
        taken when an exception of a signal's handler (Ctrl-C) comes at its turn, and all later requests would wait for
        ever."""
        for _ in range(limit):
            self._free.put(None)
        self._idle: deque[HTTPConnection] = deque()

    @contextmanager
    def connection(self) -> Iterator[ConnectionLease]:
        """A connection for one exchange. Raises TransportFailed if none can be had, Unreachable if none can
        be made."""
        lease = self.lease()
        try:
            yield lease
        finally:
            self.release(lease)

    def lease(self) -> ConnectionLease:
        """The same, for callers that release it later."""
        lease = ConnectionLease()
        try:
            lease.begin(self._free, self._timeout)
        except Empty:
            raise TransportFailed("all connections are in use") from None
        try:
            if (known := self._outage.known()) is not None:
                raise known
            with suppress(IndexError):  # there is none left
                while True:
                    connection = self._idle.pop()
                    if not _has_ended(connection):
                        lease.connection, lease.is_reused = connection, True
                        return lease
                    connection.close()
            lease.connection = self._opened()
        except BaseException:
            lease.end()
            raise
        return lease

    def release(self, lease: ConnectionLease) -> None:
        """Ends a lease."""
        if lease.is_kept and lease.connection.sock is not None:
            self._idle.append(lease.connection)
        else:
            lease.connection.close()
        lease.end()

    def unanswered(self) -> Unreachable:
        """Takes note that nothing came on a connection for all of the timeout. Returns what it is raised as."""
        return self._outage.unanswered(self._timeout)

    def answered(self) -> None:
        """Takes note of a response."""
        self._outage.ended()

    def close(self) -> None:
        """Closes the idle connections."""
        with suppress(IndexError):  # there is none left
            while True:
                self._idle.pop().close()

    def _opened(self) -> HTTPConnection:
        connection = self._make()
        began = time.monotonic()
        try:
            connection.connect()
        except (OSError, ValueError) as error:  # ValueError: a host name that can't be encoded
            connection.close()
            raise self._outage.failed(_reason(error), time.monotonic() - began) from error
        self._outage.connected()
        connection.sock.settimeout(self._timeout)
        return connection


def connection_maker(server: ServerUrl, ca_bundle: str | None, proxy: HttpProxy | None = None) -> ConnectionMaker:
    """Makes unopened connections to hosts of a server, whose certificates they verify, or to the `proxy` between.
    Raises OSError for an unusable bundle."""
    if server.scheme == "http":
        if proxy is not None:
            return lambda _host: HTTPConnection(proxy.host, proxy.port, timeout=CONNECT_TIMEOUT, blocksize=_BLOCK)
        return lambda host: HTTPConnection(_reachable(host), server.port, timeout=CONNECT_TIMEOUT, blocksize=_BLOCK)
    context = ssl.create_default_context(cafile=ca_bundle)
    context.set_alpn_protocols(["http/1.1"])
    if proxy is not None:
        return partial(_tunnelled, server, proxy, context)
    return lambda host: HTTPSConnection(host, server.port, timeout=CONNECT_TIMEOUT, blocksize=_BLOCK, context=context)


def _tunnelled(server: ServerUrl, proxy: HttpProxy, context: ssl.SSLContext, host: str) -> HTTPConnection:
    connection = HTTPSConnection(proxy.host, proxy.port, timeout=CONNECT_TIMEOUT, blocksize=_BLOCK, context=context)
    connection.set_tunnel(host, server.port, proxy.headers)
    return connection


def _reachable(host: str) -> str:
    """A name under `localhost` is the loopback (RFC 6761, 6.3), and no resolver knows it."""
    return "localhost" if host.lower().endswith(".localhost") else host


def _reason(error: OSError | ValueError) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _has_ended(connection: HTTPConnection) -> bool:
    """Whether something can be read of an idle connection."""
    if connection.sock is None:
        return True
    try:
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(connection.sock, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([connection.sock], [], [], 0)[0])
    except (OSError, ValueError):
        return True
