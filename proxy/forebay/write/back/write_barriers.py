"""Write barriers: requests that have to come after acknowledged writes wait until these are at the origin.

    waits ──> settled: it goes on
      ├──LOOK_SECONDS──> is there an obstacle? ──> 503: the wait would be in vain
      └──> it has waited for too long (patience): 503 SlowDown

An obstacle may come up at any time, so those that wait already look for it as well: the journal can't be written, the
process ends, or a write that has to come first waits for a person, as it is stuck or in conflict.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.protocol.copy_source import parse_copy_source
from forebay.protocol.exchange import Request
from forebay.protocol.target import Target
from forebay.storage.journal.pending_objects import Objects, PendingObjects
from forebay.write.back.accept.copy_sources import source_damaged
from forebay.write.forward_request import WriteContext
from forebay.write.interim_responses import READ_INTERVAL, InterimWait, read_interims
from forebay.write.invalidation import AffectedKeys, WholeBucket

_SELECT: Final = "SelectObjectContent"
"""A POST that reads."""
LOOK_SECONDS: Final = 0.5
"""Seconds between two checks for an obstacle."""
_HELD_UP: Final = (
    "An acknowledged write that it has to come after is stuck, until an operator decides (forebay writes)."
)
"""Names no object: whoever reads it may not know of that one."""


class WriteBarriers:
    """Waits for what is pending. `obstacle(bucket)`: a sentence that says why a wait would be in vain; empty: it would
    not. `is_back(name)`: whether an object is under a `back` rule. `is_held_up(objects)`: whether it would be in vain
    until a person acts."""

    def __init__(
        self,
        pending: PendingObjects,
        obstacle: Callable[[str], str] = lambda _bucket: "",
        is_back: Callable[[ObjectName], bool] = lambda _name: False,
        is_held_up: Callable[[Objects], bool] = lambda _objects: False,
    ) -> None:
        self._pending = pending
        self._obstacle = obstacle
        self._is_back = is_back
        self._is_held_up = is_held_up
        self.patience = InterimWait()
        self.read_interval = READ_INTERVAL

    def is_back(self, context: WriteContext, affected: AffectedKeys) -> bool:
        """Returns whether a write is under a `back` rule. A batch delete is where one of its keys is."""
        if context.decision is not None:
            return context.decision.write == "back"
        return not isinstance(affected, WholeBucket) and any(map(self._is_back, affected))

    async def before_write(self, context: WriteContext, affected: AffectedKeys) -> bool:
        """Waits until a write that goes through may: until what is pending of its objects and of the source of a copy
        is at the origin; under a `back` rule everything of its bucket as well, as it was acknowledged earlier. Returns
        whether it had to wait. Raises Throttled when that takes too long, S3Error when it would be in vain,
        ConnectionError when the client has left."""
        if not len(self._pending):
            return False
        bucket = context.forward.target.bucket or ""
        request = context.forward.request
        is_seen = isinstance(affected, WholeBucket) or len(affected) > 0  # what is done to an upload is not
        copied = parse_copy_source(request.headers)
        source = copied.name if copied is not None else None
        if source is not None:
            await self._pending.check(source)
        is_back = is_seen and self.is_back(context, affected)
        if isinstance(affected, WholeBucket) or is_back:
            objects: Objects = lambda name: name.bucket == bucket or name == source  # noqa: E731 -- with its type
        else:
            read = [context.forward.target.name] if context.forward.operation.name == _SELECT else []
            objects = frozenset((*affected, *read, *([source] if source is not None else [])))
        if not self._pending.any(objects):
            return False
        await self.wait(bucket, self._pending.wait_settled(objects), request, source, objects)
        return True

    async def before_read(self, target: Target, request: Request) -> None:
        """Waits until a read that the origin answers may be sent: until what is pending of its object, or under its
        prefix, is there. Its client gets interim responses meanwhile. Raises Throttled when that takes too long,
        S3Error when it would be in vain."""
        bucket, key = target.bucket, target.key
        if not len(self._pending) or bucket is None:
            return
        prefix = target.param("prefix") or ""
        if key is not None:
            await self._wait(bucket, (ObjectName(bucket, key),), request)
        else:
            await self._wait(bucket, lambda name: name.bucket == bucket and name.key.startswith(prefix), request)

    async def wait(
        self,
        bucket: str,
        waiting: Awaitable[None],
        request: Request,
        source: ObjectName | None = None,
        objects: Objects = (),
    ) -> None:
        """Waits for what a write has to come after: `objects`, as far as they are known. `source`: of a copy. Raises
        Throttled when that takes too long, S3Error when it would be in vain, ConnectionError when the client has left.
        """
        await self.patience.wait(self._wait_unless_obstructed(bucket, waiting, objects, source), request)

    async def _wait(self, bucket: str, objects: Objects, request: Request) -> None:
        if not self._pending.any(objects):
            return
        with read_interims(request, self.read_interval):
            async with self._pending.bounded_read():
                await self._wait_unless_obstructed(bucket, self._pending.wait_settled(objects), objects)

    def _refusal(self, bucket: str, objects: Objects, source: ObjectName | None) -> S3Error | None:
        if source is not None and (damage := self._pending.damage_of(source)) is not None:
            return source_damaged(damage)
        obstacle = self._obstacle(bucket)
        if not obstacle and self._is_held_up(objects):
            obstacle = _HELD_UP
        return S3Error("SlowDown", f"{obstacle} Please try again.") if obstacle else None

    async def _wait_unless_obstructed(
        self, bucket: str, waiting: Awaitable[None], objects: Objects, source: ObjectName | None = None
    ) -> None:
        """Waits. Raises S3Error once that is in vain."""
        refusal = None

        def is_obstructed() -> bool:
            nonlocal refusal
            refusal = self._refusal(bucket, objects, source)
            return refusal is not None

        try:
            await wait_unless(waiting, is_obstructed)
        except TimeoutError:
            if refusal is None:
                raise
            raise refusal from None


async def wait_unless(
    waiting: Awaitable[None], is_obstructed: Callable[[], bool], seconds: float | None = None
) -> None:
    """Waits. Raises TimeoutError once that is in vain, which is looked at now and each LOOK_SECONDS, or after
    `seconds`."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(seconds) as limit:

        def look() -> None:
            if not is_obstructed():
                timers.append(loop.call_later(LOOK_SECONDS, look))
            elif not limit.expired():  # a wait of no time expires before the first look
                limit.reschedule(loop.time())

        timers = [loop.call_soon(look)]
        try:
            await waiting
        finally:
            timers[-1].cancel()
