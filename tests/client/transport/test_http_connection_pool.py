"""Connections to one host: which is used, and what an exception of a signal's handler leaves, wherever it comes."""

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection
from types import FrameType
from typing import Any, Protocol

import pytest

from forebay_client.transport.http_connection_pool import HttpConnectionPool
from forebay_client.transport.object_request import TransportFailed, Unreachable
from forebay_client.transport.server_outage import ServerOutage


class Unconnected(HTTPConnection):
    def connect(self) -> None:
        self.sock = Socket()


class Socket:
    """One that is never used."""

    def settimeout(self, seconds: float) -> None:
        pass

    def close(self) -> None:
        pass


def pool_of(limit: int) -> HttpConnectionPool:
    return HttpConnectionPool(lambda: Unconnected("h"), limit, 0.0, ServerOutage("http://h", 5.0))


def interrupted(call: Callable[[], object], number: int) -> bool:
    """Whether the call was interrupted, as by Ctrl-C, at its call or return of a function with that number."""
    left = number

    def interrupt(frame: FrameType | None, event: str, _argument: Any) -> None:
        nonlocal left
        while frame is not None:
            if frame.f_code.co_name == "__del__":  # what is raised there is printed, and goes no further
                return
            frame = frame.f_back
        left -= 1
        if left < 0 and event in {"call", "c_return", "return"}:
            sys.setprofile(None)
            raise KeyboardInterrupt

    try:
        sys.setprofile(interrupt)
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return False


def test_no_interruption_stops_the_requests_after_it() -> None:
    number = 0
    while True:
        pool = pool_of(2)
        if not interrupted(lambda pool=pool: pool.release(pool.lease()), number):  # type: ignore[misc] # of now
            break
        pool.release(pool.lease())  # of the two connections it may have lost one, and no more
        number += 1
    assert number > 10


def test_no_more_connections_than_the_limit() -> None:
    pool = pool_of(2)
    leases = [pool.lease(), pool.lease()]
    with pytest.raises(TransportFailed, match="all connections are in use"):
        pool.lease()
    pool.release(leases.pop())
    leases.append(pool.lease())
    with pytest.raises(TransportFailed):
        pool.lease()


def test_a_lease_that_nobody_has_any_more_is_over() -> None:
    """As of a stream that was opened for a call which Ctrl-C has ended meanwhile."""
    pool = pool_of(1)
    for _ in range(3):
        lease = pool.lease()
        connection = lease.connection
        lease.keep()
        del lease
        assert connection.sock is None
    pool.release(pool.lease())
    pool.lease()


class Paired(HTTPConnection):
    """A connection whose other end is in this process, too."""

    def connect(self) -> None:
        self.sock, self.server = socket.socketpair()

    def close(self) -> None:
        super().close()
        self.server.close()


class Outage(ServerOutage):
    """Takes note of what it is told; `gone`: what it knows."""

    def __init__(self, gone: Unreachable | None = None) -> None:
        super().__init__("http://h", 5.0)
        self.gone, self.told = gone, list[str]()

    def known(self) -> Unreachable | None:
        return self.gone

    def failed(self, reason: str, took: float) -> Unreachable:
        self.told.append(reason)
        return super().failed(reason, took)

    def connected(self) -> None:
        self.told.append("connected")

    def ended(self) -> None:
        self.told.append("ended")


class MakePool(Protocol):
    def __call__(self, limit: int = 1, outage: ServerOutage | None = None) -> HttpConnectionPool: ...


@pytest.fixture
def paired_pool() -> Iterator[MakePool]:
    """Shelves of such connections, closed at the end."""
    with ExitStack() as stack:

        def make(limit: int = 1, outage: ServerOutage | None = None) -> HttpConnectionPool:
            pool = HttpConnectionPool(lambda: Paired("h"), limit, 0.25, outage or Outage())
            stack.callback(pool.close)
            return pool

        yield make


def kept(pool: HttpConnectionPool) -> HTTPConnection:
    """A connection that was used, and can be again."""
    with pool.connection() as lease:
        lease.keep()
        return lease.connection


def test_the_connection_that_was_used_last_is_used_next(paired_pool: MakePool) -> None:
    pool = paired_pool(2)
    leases = [pool.lease(), pool.lease()]
    assert [lease.is_reused for lease in leases] == [False, False]
    for lease in leases:
        lease.keep()
        pool.release(lease)
    assert kept(pool) is leases[1].connection
    with pool.connection() as lease:
        assert lease.is_reused
        lease.keep()


def test_a_connection_has_the_timeout_of_the_client(paired_pool: MakePool) -> None:
    outage = Outage()
    with paired_pool(outage=outage).connection() as lease:
        assert lease.connection.sock.gettimeout() == 0.25
    assert outage.told == ["connected"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_connection_that_is_not_kept_is_closed(paired_pool: MakePool, *, fails: bool) -> None:
    pool = paired_pool()
    with suppress(ZeroDivisionError), pool.connection() as lease:
        used = lease.connection
        if fails:
            raise ZeroDivisionError
    assert used.sock is None
    with pool.connection() as lease:
        assert not lease.is_reused


def test_a_connection_that_the_response_has_closed_is_not_kept(paired_pool: MakePool) -> None:
    pool = paired_pool()
    with pool.connection() as lease:
        lease.keep()
        lease.connection.close()
    with pool.connection() as lease:
        assert not lease.is_reused


def test_a_connection_that_the_server_has_closed_is_not_used(paired_pool: MakePool) -> None:
    pool = paired_pool()
    used = kept(pool)
    assert isinstance(used, Paired)
    used.server.close()
    with pool.connection() as lease:
        assert not lease.is_reused
    assert used.sock is None


def test_a_connection_that_cannot_be_made_takes_no_place() -> None:
    class Refused(HTTPConnection):
        def connect(self) -> None:
            raise ConnectionRefusedError(111, "Connection refused")

    outage = Outage()
    pool = HttpConnectionPool(lambda: Refused("h"), 1, 0.0, outage)
    for _ in range(2):
        with pytest.raises(Unreachable, match="Connection refused"):
            pool.lease()
    assert outage.told == ["Connection refused"] * 2


def test_a_server_that_was_given_up_is_not_tried(paired_pool: MakePool) -> None:
    outage = Outage(Unreachable("gone", may_wait=False))
    pool = paired_pool(outage=outage)
    for _ in range(2):
        with pytest.raises(Unreachable, match="gone"):
            pool.lease()
    assert outage.told == []
    pool.answered()
    assert outage.told == ["ended"]


def test_closing_closes_what_is_idle(paired_pool: MakePool) -> None:
    pool = paired_pool()
    used = kept(pool)
    pool.close()
    assert used.sock is None
    with pool.connection() as lease:
        assert not lease.is_reused
