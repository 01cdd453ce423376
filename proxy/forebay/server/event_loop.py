"""Which event loop we run on: uvloop's, or asyncio's own where there is no uvloop, with what is due cut into slices.

Both run everything that is due before they look at their sockets again: a hundred connections that each want a little
make one long stretch, and a hit that has arrived meanwhile waits for the end of it. Here what is due runs in its order
until a slice of time is used up; then the sockets have their turn, and with them hits, which are answered as their
bytes are read (forebay.server.http.client_connection); then the rest goes on.

Nothing that is due starves: each turn of the loop runs at least one callback, in the order in which they became due.
Callbacks of timers, sockets and other threads are run by the loop itself, unsliced: they are short, or make something
due. No single callback is cut: who has much to do at once yields.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Final

from forebay.server.uvloop_sockets import detaching_loop

SLICE: Final = 0.0001
"""Seconds. A turn of the loop itself costs a twentieth of that."""


class DueCallback(list[Any]):
    """A callback that is due, its arguments, its context. To whoever gets it, what asyncio.Handle is; a list, as that
    is made in C, for the loop makes dozens of them for each request."""

    __slots__ = ()

    def cancel(self) -> None:
        self[:] = None, (), None

    def cancelled(self) -> bool:
        return self[0] is None


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Makes the loop."""
    try:
        import uvloop  # noqa: PLC0415 # it may not be there
    except ModuleNotFoundError:
        return sliced_loop(asyncio.SelectorEventLoop)
    return sliced_loop(detaching_loop(uvloop.Loop))


def sliced_loop(
    kind: type[asyncio.AbstractEventLoop], clock: Callable[[], float] = perf_counter
) -> type[asyncio.AbstractEventLoop]:
    """This kind of loop, with what is due cut into slices."""

    class Sliced(kind):  # type: ignore[misc, valid-type] # a class that is made of another when we know which
        def __init__(self) -> None:
            super().__init__()
            self.call_soon = _slicing(super().call_soon, self.call_exception_handler, clock)

    return Sliced


def _slicing(
    soon: Callable[..., object], failed: Callable[[dict[str, Any]], None], clock: Callable[[], float]
) -> Callable[..., DueCallback]:
    """A loop's `call_soon`, given its own, and whom to tell of exceptions. A closure, as it is called so often."""
    waiting = deque[DueCallback]()
    own = Context()
    turning = False  # whether a turn is ahead, or under way

    def call_soon(callback: Callable[..., object], *args: Any, context: Context | None = None) -> DueCallback:
        nonlocal turning
        due = DueCallback((callback, args, copy_context() if context is None else context))
        waiting.append(due)
        if not turning:
            turning = True
            soon(turn, context=own)
        return due

    def turn() -> None:
        """Run what is due now, as far as the slice goes."""
        nonlocal turning
        left = len(waiting)
        until = clock() + SLICE
        try:
            while left:
                callback, args, context = waiting.popleft()
                left -= 1
                if callback is None:
                    continue
                try:
                    context.run(callback, *args)
                except (SystemExit, KeyboardInterrupt):
                    raise  # they end the loop
                except BaseException as error:  # as asyncio.Handle: whatever a callback raises is told
                    failed({"message": f"Exception in callback {callback}", "exception": error})
                if left and clock() >= until:
                    break
        finally:
            turning = bool(waiting)
            if turning:
                soon(turn, context=own)

    return call_soon
