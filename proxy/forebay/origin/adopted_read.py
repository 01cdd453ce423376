"""Adopted reads: requests that left without a task (forebay.origin.reads.sent_reads), and that a task takes over."""

from typing import NamedTuple, Protocol

from forebay.origin.http.http_connection import HttpConnection
from forebay.origin.turns.request_turns import Turn


class AdoptedRead(NamedTuple):
    """A request under way."""

    connection: HttpConnection
    turn: Turn
    started: float
    """The time at which the request was sent, on the client's monotonic clock."""


class AdoptableRead(Protocol):
    """A request under way that a task may take over."""

    def adopt(self) -> AdoptedRead | None:
        """Returns the state with which the task continues. None: the request is over, or another task has it."""
        ...
