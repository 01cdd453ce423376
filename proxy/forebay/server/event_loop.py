"""The event loop: uvloop's, or asyncio's own where there is no uvloop, with due callbacks run in slices.

Both loops run everything that is due before they look at their sockets again: a hundred connections that each want a
little make one long turn, and a hit that has arrived meanwhile waits for its end. Here due callbacks run, in order,
until a slice of time is used up; then the sockets have their turn, and with them hits, which are answered as their
bytes are read (forebay.server.http.client_connection); then the rest goes on.

    due: a b c d e f ──> a b c │ sockets │ d e │ sockets │ f

- Nothing due starves: each turn of the loop runs at least one callback, in the order in which they became due.
- Callbacks of timers, sockets and other threads are run by the loop itself, unsliced: they are short, or make something
  due. No single callback is interrupted: long work has to yield.
- uvloop owns a connected socket from the moment it is passed in (`_DetachedSocket`).
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from time import perf_counter
from typing import Any, Final

SLICE: Final = 0.0001
"""Seconds. A turn of the loop itself costs a twentieth of that."""


class DueCallback(list[Any]):
    """A due callback, its arguments and its context: an asyncio.Handle to its owner.

    A list, as that is made in C: the loop makes dozens of them for each request.
    """

    __slots__ = ()

    def cancel(self) -> None:
        """Keeps the callback from running."""
        self[:] = None, (), None

    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self[0] is None


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Returns the factory of the loop of a process that serves, for asyncio.Runner."""
    try:
        import uvloop  # noqa: PLC0415 # it may not be there
    except ModuleNotFoundError:
        return sliced_loop(asyncio.SelectorEventLoop)
    return sliced_loop(detaching_loop(uvloop.Loop))


def sliced_loop(
    kind: type[asyncio.AbstractEventLoop], clock: Callable[[], float] = perf_counter
) -> type[asyncio.AbstractEventLoop]:
    """A subclass of this kind of loop that runs due callbacks in slices. `clock`: seconds."""

    class Sliced(kind):  # type: ignore[misc, valid-type] # its base is known at run time only
        def __init__(self) -> None:
            super().__init__()
            self.call_soon = _slicing(super().call_soon, self.call_exception_handler, clock)

    return Sliced


def detaching_loop(kind: type[asyncio.AbstractEventLoop]) -> type[asyncio.AbstractEventLoop]:
    """A subclass of this kind of loop, uvloop's, that detaches connected sockets as it takes them over."""

    class Detaching(kind):  # type: ignore[misc, valid-type] # its base is known at run time only
        async def create_connection(self, *args: Any, sock: socket.socket | None = None, **kwargs: Any) -> Any:
            return await super().create_connection(*args, sock=_DetachedSocket.of(sock), **kwargs)

        async def create_unix_connection(self, *args: Any, sock: socket.socket | None = None, **kwargs: Any) -> Any:
            return await super().create_unix_connection(*args, sock=_DetachedSocket.of(sock), **kwargs)

    return Detaching


def _slicing(
    soon: Callable[..., object], failed: Callable[[dict[str, Any]], None], clock: Callable[[], float]
) -> Callable[..., DueCallback]:
    """A replacement for `call_soon`, from a loop's own `call_soon` (`soon`) and its exception handler (`failed`).

    A closure, as it is called so often.
    """
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
        """Runs due callbacks, for one slice at most."""
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
                except BaseException as error:  # as asyncio.Handle does: every exception goes to the handler
                    failed({"message": f"Exception in callback {callback}", "exception": error})
                if left and clock() >= until:
                    break
        finally:
            turning = bool(waiting)
            if turning:
                soon(turn, context=own)

    return call_soon


class _DetachedSocket:
    """A connected socket that forgets its descriptor as it passes it to uvloop; until then the caller closes it.

    uvloop has libuv close the descriptor, and makes the Python socket forget it, but only when the coroutine that asked
    for the connection runs again. A connection that ends before (reset at once by the peer, a worker that is killed)
    leaves a socket object with a descriptor that by then belongs to another connection: when the object is collected
    it closes that connection, the next one gets the same number, and bytes meant for one client go to another. Slices
    let that coroutine run late, on a busy server by milliseconds. asyncio's own loop keeps the object itself, and needs
    none of this. https://github.com/MagicStack/uvloop (loop.pyx, `create_connection`)
    """

    def __init__(self, own: socket.socket) -> None:
        self._own = own

    @classmethod
    def of(cls, own: socket.socket | None) -> "_DetachedSocket | None":
        return None if own is None else cls(own)

    @property
    def family(self) -> int:
        return self._own.family

    @property
    def type(self) -> int:
        return self._own.type

    def setblocking(self, blocking: bool) -> None:
        self._own.setblocking(blocking)

    def fileno(self) -> int:
        return self._own.detach()

    def detach(self) -> int:
        """The descriptor is forgotten already."""
        return -1

    def close(self) -> None:
        """There is nothing left to close."""
