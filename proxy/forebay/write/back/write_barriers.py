"""Write barriers: what has to come after acknowledged writes waits until these are at the origin."""

import asyncio
from collections.abc import Callable
from typing import Final

from forebay.core.errors import S3Error, Throttled
from forebay.core.names import ObjectName
from forebay.protocol.copy_source import parse_copy_source
from forebay.protocol.exchange import Request
from forebay.protocol.target import Target
from forebay.storage.journal.pending_objects import Objects, PendingObjects
from forebay.write.back.patience import Patience
from forebay.write.forward_request import WriteContext
from forebay.write.invalidation import AffectedKeys, WholeBucket

WAIT_SECONDS: Final = 30.0
"""How long a read waits for pending writes."""


class WriteBarriers:
    """Waits for what is pending. `obstacle(bucket)`: a sentence that says why a wait would be in vain; empty: it would
    not."""

    def __init__(self, pending: PendingObjects, obstacle: Callable[[str], str] = lambda _bucket: "") -> None:
        self._pending = pending
        self._obstacle = obstacle
        self.patience = Patience()
        self.read_seconds = WAIT_SECONDS

    async def before_write(self, context: WriteContext, affected: AffectedKeys) -> bool:
        """Waits until a write that goes through may: until what is pending of its objects and of the source of a copy
        is at the origin; under a `back` rule everything of its bucket as well, as it was acknowledged earlier. Returns
        whether it had to wait. Raises Throttled when that takes too long, S3Error when it would be in vain,
        ConnectionError when the client has left."""
        if not len(self._pending):
            return False
        bucket, decision = context.forward.target.bucket or "", context.decision
        request = context.forward.request
        is_seen = isinstance(affected, WholeBucket) or len(affected) > 0  # what is done to an upload is not
        source = parse_copy_source(request.headers)
        sources = frozenset({source.name}) if source is not None else frozenset()
        if isinstance(affected, WholeBucket) or (is_seen and decision is not None and decision.write == "back"):
            return await self._wait_long(bucket, lambda name: name.bucket == bucket or name in sources, request)
        return await self._wait_long(bucket, frozenset(affected) | sources, request)

    async def before_read(self, target: Target) -> None:
        """Waits until a read that the origin answers may be sent: until what is pending of its object, or under its
        prefix, is there. Raises Throttled when that takes too long, S3Error when it would be in vain."""
        bucket, key = target.bucket, target.key
        if not len(self._pending) or bucket is None:
            return
        prefix = target.param("prefix") or ""
        if key is not None:
            await self._wait(bucket, (ObjectName(bucket, key),))
        else:
            await self._wait(bucket, lambda name: name.bucket == bucket and name.key.startswith(prefix))

    async def _wait_long(self, bucket: str, objects: Objects, request: Request) -> bool:
        if not self._pending.any(objects):
            return False
        self._check(bucket)
        await self.patience.wait(self._pending.wait_settled(objects), request)
        return True

    async def _wait(self, bucket: str, objects: Objects) -> None:
        if self._pending.any(objects):
            self._check(bucket)
        try:
            async with asyncio.timeout(self.read_seconds):
                await self._pending.wait_settled(objects)
        except TimeoutError:
            raise Throttled("writes that it has to come after are not at the origin yet") from None

    def _check(self, bucket: str) -> None:
        """Raises S3Error while a wait would be in vain."""
        if obstacle := self._obstacle(bucket):
            raise S3Error("SlowDown", f"{obstacle} Please try again.")
