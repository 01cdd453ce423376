"""Shared lookups: one request to the origin under way, its result, and any number of readers waiting for it.

    start ──> running ──> done: the callbacks run, then every waiter gets the result, or the exception
                 └── cancelled: every waiter is cancelled, or starts it anew

A lookup runs in a task of its own, which belongs to the task registry: readers come and go, and none of them cancels it
by leaving. Or it runs in the task of the reader that has started it (`lead`), which saves the task: for readers that
are cancelled when the process ends, as the reads of clients are, or that nobody waits for. If such a reader is
cancelled all the same, one of the waiters starts the lookup anew.

Or it was begun without a task (`begin`, metadata.direct_openings), and ends in a callback (`complete`). Where it can't,
it is given up to the first reader that comes with a task (`give_up`), which leads it on with the request that was sent.

Flights that come with a result are followed here from the moment it is known until every waiter has had one turn of the
loop to follow them. Otherwise they would end as unwanted, or their buffers would be released, before their readers run.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

from forebay.core.errors import ForebayError
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.reads.sent_reads import SentRead
from forebay.peers.relayed_openings import RelayedRead

BegunRead: TypeAlias = SentRead | RelayedRead
"""A read that has left before a task exists that could wait for it: at the origin, or at the object's owner."""


class LookupKey(NamedTuple):
    """The subject of a lookup. Readers with equal keys share one."""

    kind: Literal["GET", "HEAD", "check", "checksums"]
    """GET and HEAD open an object that has no known head, `check` revalidates one."""
    identity: OriginIdentity | None
    """The identity that signs the requests to the origin."""
    version_id: str | None = None


class AbandonedLookup(ForebayError):
    """The reader that led the lookup was cancelled. Nobody but SharedLookups needs to know."""


class SharedLookup:
    """One lookup under way. See the module."""

    __slots__ = ("_is_fenced", "_on_done", "_result", "_sent", "_waiters", "_waiting", "is_done", "on_wait")

    def __init__(self, on_done: Callable[[], None] | None = None) -> None:
        """`on_done`: called when the lookup is done, before any waiter runs."""
        self._result: Resolution | None = None
        self._on_done = on_done
        self._waiters: list[asyncio.Future[Resolution]] = []
        self._waiting = 0
        self._sent: BegunRead | None = None
        self._is_fenced = False
        self.is_done = False
        """Whether it has a result, or never will."""
        self.on_wait: Callable[[], None] | None = None
        """Called when the first reader waits, from when this is set."""

    async def wait(self) -> Resolution:
        """Returns the result. Raises the lookup's error, or AbandonedLookup. Not to be called when it is done."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Resolution] = loop.create_future()
        self._waiters.append(waiter)
        self._waiting += 1
        on_wait, self.on_wait = self.on_wait, None
        if on_wait is not None:
            on_wait()
        try:
            return await waiter
        finally:
            self._waiting -= 1
            # Not before this waiter reaches its next await: until then it may follow the flights.
            loop.call_soon(self._release_flights)

    @property
    def is_awaited(self) -> bool:
        """Whether a reader waits for the result."""
        return self._waiting > 0

    def run(self, tasks: TaskRegistry, work: Coroutine[Any, Any, Resolution], label: str) -> None:
        """Runs `work` in a task. `label` is for the log."""

        async def run() -> None:
            self._deliver(await work)

        def ended(task: asyncio.Task[None]) -> None:
            work.close()  # never started, if the task was cancelled at once
            for waiter in self._finish():  # none are left after a result
                if waiter.done():
                    continue
                if task.cancelled():
                    waiter.cancel()
                elif (failure := task.exception()) is not None:
                    waiter.set_exception(failure)
            self._release_flights()

        tasks.spawn(run(), label).add_done_callback(ended)

    async def lead(self, work: Coroutine[Any, Any, Resolution]) -> Resolution:
        """Runs `work` in the task of the caller, and returns its result. The caller follows the flights that it wants
        before anything else runs, and calls `release_flights` in the end."""
        try:
            result = await work
        except asyncio.CancelledError:
            self._fail(AbandonedLookup())
            raise
        except BaseException as failure:
            self._fail(failure)
            raise
        self.complete(result)
        return result

    def complete(self, result: Resolution) -> None:
        """Ends with a result. Whoever calls this does with its flights what `lead` asks for."""
        if self._waiting:
            self._deliver(result)
        else:
            self._finish()

    def end(self) -> None:
        """Ends without a result: no reader waits for it."""
        self._finish()

    def give_up(self, sent: BegunRead) -> None:
        """Leaves a lookup that was begun without a task, and its request, to the next reader that shares it."""
        self._sent = sent
        if self._is_fenced:
            self.abandon()

    def fence(self) -> None:
        """Keeps later readers from joining this lookup. If it was given up, it ends."""
        self._is_fenced = True
        self.abandon()

    def take_over(self) -> BegunRead | None:
        """The request of a lookup that was given up, which the caller leads on; None: it was not given up."""
        sent, self._sent = self._sent, None
        return sent

    def abandon(self) -> None:
        """Ends a given-up look-up that no task has taken over, without a result: its waiters start anew."""
        sent = self.take_over()
        if sent is not None:
            sent.close()
            self._fail(AbandonedLookup())

    def _deliver(self, result: Resolution) -> None:
        self._result = result
        if isinstance(result, ResolvedVersion):
            for flight in result.flights.values():
                flight.follow()  # left by _release_flights
        # Here rather than when the task has ended: one turn of the loop earlier.
        for waiter in self._finish():
            if not waiter.done():
                waiter.set_result(result)

    def _fail(self, failure: BaseException) -> None:
        for waiter in self._finish():
            if not waiter.done():
                waiter.set_exception(failure)

    def _finish(self) -> list[asyncio.Future[Resolution]]:
        """Marks the lookup done and returns the waiters still to be woken."""
        self.is_done = True
        on_done, self._on_done, self.on_wait = self._on_done, None, None
        if on_done is not None:
            on_done()
        waiters, self._waiters = self._waiters, []
        return waiters

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
        self,
        name: ObjectName,
        key: LookupKey,
        work: Callable[[BegunRead | None], Coroutine[Any, Any, Resolution]],
        *,
        leads: bool = False,
    ) -> tuple[Resolution, bool]:
        """Returns the result of the lookup under `key`, started if there is none, and whether it was joined. `leads`:
        whether one that is started runs in this task. `work` gets the request that was sent for it, if one was."""
        while name in self._shared and (lookup := self.find(name, key)) is not None:
            if (sent := lookup.take_over()) is not None:
                try:
                    return await lookup.lead(work(sent)), True
                finally:
                    sent.close()
            try:
                result = await lookup.wait()
            except AbandonedLookup:
                continue
            return (replace(result, joined=True) if isinstance(result, ResolvedVersion) else result), True
        if leads:
            return await self._add(name, key).lead(work(None)), False
        return await self.start(name, key, work(None)).wait(), False

    def begin(self, name: ObjectName, key: LookupKey) -> SharedLookup | None:
        """Begins a lookup without a task; None: a lookup of the object is under way."""
        return None if name in self._shared else self._add(name, key)

    def find(self, name: ObjectName, key: LookupKey) -> SharedLookup | None:
        """Returns the lookup of `name` under `key`, to be joined at once or not at all."""
        return self._shared.get(name, {}).get(key)

    def find_opening(self, name: ObjectName, other_than: OriginIdentity | None) -> SharedLookup | None:
        """Returns the first GET for the current version of `name` under another identity than this one."""
        lookups = self._shared.get(name)
        if lookups is None:
            return None
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
        lookup = self._add(name, key)
        lookup.run(self._tasks, work, f"{key.kind} {name.path}")
        return lookup

    def start_unshared(self, work: Coroutine[Any, Any, Resolution], label: str) -> SharedLookup:
        """Starts a lookup of its own, which no other reader joins. `label` is for the log."""
        lookup = SharedLookup()
        lookup.run(self._tasks, work, label)
        return lookup

    def _add(self, name: ObjectName, key: LookupKey) -> SharedLookup:
        lookups = self._shared.setdefault(name, {})
        lookup = lookups[key] = SharedLookup(partial(self._remove, name, lookups, key))
        return lookup

    def fence(self, name: ObjectName) -> None:
        """Keeps later readers from joining lookups of `name` that are under way."""
        for lookup in tuple(self._shared.pop(name, {}).values()):
            lookup.fence()

    def fence_bucket(self, bucket: str) -> None:
        """Fences every object of a bucket, as `fence` does one."""
        for name in [name for name in self._shared if name.bucket == bucket]:
            self.fence(name)

    def _remove(self, name: ObjectName, lookups: dict[LookupKey, SharedLookup], key: LookupKey) -> None:
        del lookups[key]
        if not lookups and self._shared.get(name) is lookups:
            del self._shared[name]
