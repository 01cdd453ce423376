"""The CORS rules of buckets, fetched with Forebay's own credential and cached for a minute.

Preflights are not signed, so anybody can cause these fetches: few run at a time, one for each bucket, and their results
are cached, also negative ones. A bucket without rules and one that does not exist are the same here. PutBucketCors and
DeleteBucketCors through Forebay end what is cached in all workers, as writes do.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from forebay.core.errors import ForebayError, MalformedXml
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.origin.origin_request import OriginRequest
from forebay.origin.origins import Origins
from forebay.protocol.xml.cors_document import MAX_SIZE, CorsRule, read_cors_rules

LIFETIME: Final = 60.0
"""Seconds."""
RETRY_INTERVAL: Final = 5.0
"""Seconds between two attempts where the origin does not say."""
PATIENCE: Final = 2.0
"""Seconds that a request waits for rules. Then it proceeds without them, and the fetch continues."""
MAX_FETCHES: Final = 8
"""The most fetches at a time. A request that would need another one gets no CORS headers."""
_CAPACITY: Final = 1024

Rules = tuple[CorsRule, ...]


class BucketCors:
    """Implements forebay.write.invalidation.Joinable: the name of a bucket's configuration has an empty key."""

    def __init__(self, origins: Origins, tasks: TaskRegistry, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._origins, self._tasks, self._monotonic = origins, tasks, monotonic
        self._known: OrderedDict[str, tuple[Rules, float]] = OrderedDict()
        self._fetches: dict[str, asyncio.Task[Rules | None]] = {}

    async def rules(self, bucket: str) -> Rules:
        """Returns the rules of a bucket; none if they can't be fetched."""
        known = self._known.get(bucket)
        if known is not None and self._monotonic() < known[1]:
            return known[0]
        fetch = self._fetches.get(bucket)
        if fetch is None:
            if len(self._fetches) >= MAX_FETCHES:
                return ()
            fetch = self._fetches[bucket] = self._tasks.spawn(self._fetch(bucket), f"CORS rules of {bucket}")
            fetch.add_done_callback(lambda done: self._end(bucket, done))
        await asyncio.wait([fetch], timeout=PATIENCE)
        return (fetch.result() if fetch.done() and not fetch.cancelled() else None) or ()

    def fence(self, name: ObjectName) -> None:
        """Forgets the rules of the bucket whose configuration is named."""
        if not name.key:
            self.fence_bucket(name.bucket)

    def fence_bucket(self, bucket: str) -> None:
        """Forgets the rules of the bucket, and keeps a fetch under way from being stored."""
        self._known.pop(bucket, None)
        self._fetches.pop(bucket, None)

    def _end(self, bucket: str, fetch: "asyncio.Task[Rules | None]") -> None:
        if self._fetches.get(bucket) is not fetch:
            return
        del self._fetches[bucket]
        if fetch.cancelled():
            return
        rules = fetch.result()
        lifetime = LIFETIME if rules is not None else RETRY_INTERVAL
        self._known[bucket] = rules or (), self._monotonic() + lifetime
        self._known.move_to_end(bucket)
        if len(self._known) > _CAPACITY:
            self._known.popitem(last=False)

    async def _fetch(self, bucket: str) -> Rules | None:
        """The rules; None if the origin did not say."""
        request = OriginRequest("GET", bucket, query=(("cors", ""),), operation="GetBucketCors")
        try:
            async with await self._origins.send(request) as answer:
                if answer.status == 200:
                    return read_cors_rules(await answer.read(MAX_SIZE))
                return () if answer.status < 500 else None
        except (ForebayError, MalformedXml):
            return None
