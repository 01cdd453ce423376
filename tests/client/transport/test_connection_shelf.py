"""Connections to one host: what an exception of a signal's handler leaves, wherever it comes."""

import sys
from collections.abc import Callable
from http.client import HTTPConnection
from types import FrameType
from typing import Any

import pytest

from forebay_client.transport.connection_shelf import ConnectionShelf
from forebay_client.transport.object_request import TransportFailed
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


def shelf_of(limit: int) -> ConnectionShelf:
    return ConnectionShelf(lambda: Unconnected("h"), limit, 0.0, ServerOutage("http://h", 5.0))


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
        shelf = shelf_of(2)
        if not interrupted(lambda shelf=shelf: shelf.release(shelf.lease()), number):  # type: ignore[misc] # of now
            break
        shelf.release(shelf.lease())  # of the two connections it may have lost one, and no more
        number += 1
    assert number > 10


def test_no_more_connections_than_the_limit() -> None:
    shelf = shelf_of(2)
    leases = [shelf.lease(), shelf.lease()]
    with pytest.raises(TransportFailed, match="all connections are in use"):
        shelf.lease()
    shelf.release(leases.pop())
    leases.append(shelf.lease())
    with pytest.raises(TransportFailed):
        shelf.lease()


def test_a_lease_that_nobody_has_any_more_is_over() -> None:
    """As of a stream that was opened for a call which Ctrl-C has ended meanwhile."""
    shelf = shelf_of(1)
    for _ in range(3):
        lease = shelf.lease()
        connection = lease.connection
        lease.keep()
        del lease
        assert connection.sock is None
    shelf.release(shelf.lease())
    shelf.lease()
