"""Calls to the workers of a node: to the first that answers, to each for its own answer, or to all without fail."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from forebay.core.errors import PeerUnavailable, Throttled
from forebay.peers.frames import Document
from forebay.peers.peer_client import FENCE_TIMEOUT
from forebay.workers.worker_pool import WorkerPool
from forebay.workers.worker_process import WorkerProcess
from forebay.workers.worker_rpc import call, client_stub, request_document

POLL_TIMEOUT: Final = 5.0
"""Seconds that a caller waits for the answer of each worker."""

P = ParamSpec("P")
T = TypeVar("T")


class WorkerCalls:
    """Calls the live workers of a pool by the methods of their interfaces (worker_rpc)."""

    def __init__(self, pool: WorkerPool) -> None:
        self.poll_timeout = POLL_TIMEOUT
        self._pool = pool

    def first_worker(self, interface: Callable[..., T]) -> T:
        """An implementation of an interface, which has the first live worker answer. It raises Throttled where none
        is."""

        async def send(method: Callable[..., Awaitable[object]], *args: object, **kwargs: object) -> object:
            return (await self.first_answer(method, *args, **kwargs))[1]

        return client_stub(interface, send)

    def every_worker(self, interface: Callable[..., T]) -> T:
        """An implementation of an interface whose methods return nothing, by `call_every_worker`."""

        async def send(method: Callable[..., Awaitable[object]], *args: object, **kwargs: object) -> None:
            await self.call_every_worker(request_document(method, *args, **kwargs))

        return client_stub(interface, send)

    async def call_every_worker(self, document: Document) -> None:
        """Has every live worker carry out a call, and kills a worker that does not answer."""
        await asyncio.gather(*(worker.peer.call_until_acked(document, FENCE_TIMEOUT) for worker in self._pool.alive))

    async def answers(
        self, method: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> list[tuple[WorkerProcess, T]]:
        """Calls all workers. Returns the results of those that answer in time."""

        async def call_one(worker: WorkerProcess) -> tuple[WorkerProcess, T] | None:
            try:
                async with asyncio.timeout(self.poll_timeout):
                    return worker, await call(worker.peer, method, *args, **kwargs)
            except (TimeoutError, PeerUnavailable):
                return None

        answers = await asyncio.gather(*map(call_one, self._pool.alive))
        return [answer for answer in answers if answer is not None]

    async def first_answer(
        self, method: Callable[Concatenate[Any, P], Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> tuple[WorkerProcess, T]:
        """Calls the first worker that is there; it, and its result. Raises Throttled when none is."""
        for worker in self._pool.alive:
            try:
                return worker, await call(worker.peer, method, *args, **kwargs)
            except PeerUnavailable:
                continue
        raise Throttled("no worker runs")
