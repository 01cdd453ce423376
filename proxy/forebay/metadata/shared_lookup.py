"""Shared lookups: one request to the origin under way, its result, and any number of readers waiting for it.

    start ──> running ──> done: the callbacks run, then every waiter gets the result, or the exception
                 └── cancelled: every waiter is cancelled

A lookup belongs to the task registry. Readers come and go; none of them cancels it by leaving.

Flights that come with a result are followed here from the moment it is known until every waiter has had one turn of the
loop to follow them. Otherwise they would end as unwanted, or their buffers would be released, before their readers run.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

from forebay.core.heads import Head
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.fetch.flight import Flight
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.owners import LookupStatus


class LookupKey(NamedTuple):
    """What is looked up about an object. Readers with equal keys share a lookup."""

    kind: Literal["GET", "HEAD", "check", "checksums"]
    """GET and HEAD open an object that has no known head, `check` revalidates one."""
    identity: OriginIdentity | None
    """The identity that the origin is asked with."""
    version_id: str | None = None


@dataclass(frozen=True, slots=True)
class ResolvedVersion:
    """The version to answer with."""

    head: Head
    status: LookupStatus
    flights: dict[int, Flight] = field(default_factory=dict)
    """The flights that came with the head, landed or not, by block number. They must be followed at once, so that their
    bytes are served even where no tier keeps them. Emptied when all waiters have had their turn."""
    joined: bool = False
    """Whether another reader had started the lookup."""


Resolution: TypeAlias = ResolvedVersion | ErrorResponse | Uncacheable


class SharedLookup:
    """One lookup under way. See the module."""

    __slots__ = ("_callbacks", "_result", "_waiters", "_waiting", "_work", "is_done")

    def __init__(self, tasks: TaskRegistry, work: Coroutine[Any, Any, Resolution], label: str) -> None:
        """Starts `work` as a task. `label` is for the log."""
        self._result: Resolution | None = None
        self._callbacks: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[Resolution]] = []
        self._waiting = 0
        self._work = work
        self.is_done = False
        """Whether it has a result, or never will."""
        tasks.spawn(self._run(), label).add_done_callback(self._task_done)

    async def wait(self) -> Resolution:
        """Returns the result; raises what the lookup failed with. Not to be called when it is done."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Resolution] = loop.create_future()
        self._waiters.append(waiter)
        self._waiting += 1
        try:
            return await waiter
        finally:
            self._waiting -= 1
            # Not before this waiter reaches its next await: until then it may follow the flights.
            loop.call_soon(self._release_flights)

    def add_done_callback(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the lookup is done, before any waiter runs."""
        self._callbacks.append(callback)

    async def _run(self) -> Resolution:
        result = self._result = await self._work
        if isinstance(result, ResolvedVersion):
            for flight in result.flights.values():
                flight.follow()  # left by _release_flights
        # Here rather than in _task_done: one turn of the loop earlier.
        for waiter in self._finish():
            if not waiter.done():
                waiter.set_result(result)
        return result

    def _finish(self) -> list[asyncio.Future[Resolution]]:
        """Marks the lookup done and returns the waiters still to be woken."""
        self.is_done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
        waiters, self._waiters = self._waiters, []
        return waiters

    def _task_done(self, task: asyncio.Task[Resolution]) -> None:
        self._work.close()  # never started, if the task was cancelled at once
        for waiter in self._finish():  # none are left after a result
            if waiter.done():
                continue
            if task.cancelled():
                waiter.cancel()
            elif (failure := task.exception()) is not None:
                waiter.set_exception(failure)
        self._release_flights()

    def _release_flights(self) -> None:
        result = self._result
        if self._waiting == 0 and isinstance(result, ResolvedVersion):
            for flight in result.flights.values():
                flight.leave()
            result.flights.clear()


class SharedLookups:
    """The lookups under way that may be joined, by object."""

    def __init__(self, tasks: TaskRegistry) -> None:
        self._tasks = tasks
        self._shared: dict[ObjectName, dict[LookupKey, SharedLookup]] = {}

    async def share(
        self, name: ObjectName, key: LookupKey, work: Callable[[], Coroutine[Any, Any, Resolution]]
    ) -> tuple[Resolution, bool]:
        """Returns the result of the lookup under `key`, started if there is none, and whether it was joined."""
        lookup = self.find(name, key)
        if lookup is None:
            return await self.start(name, key, work()).wait(), False
        result = await lookup.wait()
        return (replace(result, joined=True) if isinstance(result, ResolvedVersion) else result), True

    def find(self, name: ObjectName, key: LookupKey) -> SharedLookup | None:
        """Returns the lookup of `name` under `key`, to be joined at once or not at all."""
        return self._shared.get(name, {}).get(key)

    def find_opening(self, name: ObjectName, other_than: OriginIdentity | None) -> SharedLookup | None:
        """Returns the first GET for the current version of `name` under another identity than this one."""
        lookups = self._shared.get(name, {})
        return next(
            (
                lookup
                for key, lookup in lookups.items()
                if key.kind == "GET" and key.version_id is None and key.identity != other_than
            ),
            None,
        )

    def start(self, name: ObjectName, key: LookupKey, work: Coroutine[Any, Any, Resolution]) -> SharedLookup:
        """Starts a lookup that others may join. None is under way under `key`."""
        lookups = self._shared.setdefault(name, {})
        lookup = lookups[key] = self.start_unshared(work, f"{key.kind} {name.path}")
        lookup.add_done_callback(lambda: self._remove(name, lookups, key))
        return lookup

    def start_unshared(self, work: Coroutine[Any, Any, Resolution], label: str) -> SharedLookup:
        """Starts a lookup that nobody can join. `label` is for the log."""
        return SharedLookup(self._tasks, work, label)

    def fence(self, name: ObjectName) -> None:
        """Keeps later readers from joining the lookups of `name` under way."""
        self._shared.pop(name, None)

    def fence_bucket(self, bucket: str) -> None:
        """Does what `fence` does, for every object of a bucket."""
        for name in [name for name in self._shared if name.bucket == bucket]:
            del self._shared[name]

    def _remove(self, name: ObjectName, lookups: dict[LookupKey, SharedLookup], key: LookupKey) -> None:
        del lookups[key]
        if not lookups and self._shared.get(name) is lookups:
            del self._shared[name]
