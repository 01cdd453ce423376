"""Arrived requests: requests in the kernel at the end of a worker, which are still answered.

    listening socket: connections that are not accepted yet    ──> accepted, then the socket is closed
    connection: bytes of a request that are not read yet       ──> read, then idle connections end

If a socket is closed with either, the kernel resets the connection, and the client gets no answer to a request that
arrived before the end. A request that arrives during the last turns of the loop may still be reset, as with any server.
"""

import asyncio
import select
from collections.abc import Callable, Iterable
from typing import Final

MAX_TURNS: Final = 100
"""Turns of the event loop. Under load something arrives in each of them, so that it has to end."""

QUIET_TURNS: Final = 4
"""Turns without anything new: asyncio's own loop takes three to make a connection of an accepted socket."""


async def wait_for_reads(descriptors: Callable[[], Iterable[int]]) -> None:
    """Lets the event loop read until nothing has arrived for the sockets that `descriptors` names, or MAX_TURNS."""
    quiet = 0
    for _ in range(MAX_TURNS):
        poll = select.poll()
        for descriptor in descriptors():
            poll.register(descriptor, select.POLLIN)
        quiet = 0 if poll.poll(0) else quiet + 1
        if quiet == QUIET_TURNS:
            return
        await asyncio.sleep(0)
