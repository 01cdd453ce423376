"""The object warmer: brings one object into the cache, for a warm-up job or for another worker's job.

    background turn ──> resolve ──> fetch the missing blocks ──> the tiers

It reads as a client does, under the same rules and through the same flights. But it begins nothing that demand would
have to wait for (origin.background_turns), does not read blocks that are here, and waits for the SSD tier to keep up:
after each large object, and now and then between small ones. Whoever wants to know what is stored in the end flushes
the tiers. An object that another worker owns is warmed by that worker.

A small object that is not here costs three quarters of a client's miss: it has no request, no response and no plan
(docs/notes/misses.md).
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from forebay.core.byte_ranges import Span
from forebay.core.errors import PeerUnavailable
from forebay.core.events import BytesWarmed
from forebay.core.names import ObjectName
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.ordered_body import BlockSource, OrderedBody
from forebay.metadata.resolver import LookupRequest, Resolver
from forebay.metadata.shared_lookup import ResolvedVersion
from forebay.origin.background_turns import BackgroundTurns
from forebay.origin.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.frames import Document
from forebay.peers.owners import Owner, Peers
from forebay.peers.peer_codec import encode_name
from forebay.policy.rules import Decision, Rules
from forebay.protocol.xml.s3_documents import embedded_error

FLUSH_BYTES: Final = 32 << 20
"""Bytes of one object that are fetched before the tiers must have stored them."""
SMALL_FLUSH_BYTES: Final = 4 << 20
"""Bytes of small objects for which the same holds: some hundred of them are stored in one transaction."""
UNFLUSHED_OVERHEAD: Final = 4 << 10
"""Bytes for which the head of an object and the order to write it count."""


@dataclass(frozen=True, slots=True)
class WarmUpProgress:
    """Progress with one object: its size, once it is known; bytes that are stored; or why they can't be."""

    kind: Literal["size", "arrived", "problem"]
    size: int = 0
    """Of the wanted bytes, those that arrived."""
    fetched: int = 0
    """Bytes that came from the origin for this."""
    problem: str = ""

    def encode(self) -> Document:
        """Returns this progress as a document."""
        return {"kind": self.kind, "size": self.size, "fetched": self.fetched, "problem": self.problem}


def decode_progress(document: Document) -> WarmUpProgress:
    """Returns the progress of a document. Raises ValueError for an unknown kind."""
    kind: Literal["size", "arrived", "problem"]
    match document["kind"]:
        case "size" | "arrived" | "problem" as kind:
            return WarmUpProgress(kind, int(document["size"]), int(document["fetched"]), str(document["problem"]))
        case other:
            raise ValueError(f"no progress: {other}")


class ObjectWarmer:
    """Warms objects. `turns_of` returns those of the origin that has a bucket, or raises S3Error; `rules` those in
    force."""

    def __init__(
        self,
        resolver: Resolver,
        source: BlockSource,
        turns_of: Callable[[str], BackgroundTurns],
        rules: Callable[[], Rules],
        peers: Peers,
    ) -> None:
        self._resolver = resolver
        self._source = source
        self._turns_of = turns_of
        self._rules = rules
        self._peers = peers
        self._unflushed = 0

    def block_size(self, name: ObjectName) -> int:
        """Bytes of a block of an object that is cached now."""
        return self._rules().decide(name).block

    def warm(
        self, name: ObjectName, group: str, start: int = 0, stop: int | None = None
    ) -> AsyncGenerator[WarmUpProgress]:
        """Warms the bytes of one object from `start` up to `stop`, or to its end, in the worker that owns it, or here
        if that is not there. `group`: the job, as jobs share the background turns. Raises what `warm_here` raises."""
        owner = self._peers.owner(name)
        if owner is None:
            return self.warm_here(name, group, start, stop)
        return self._warm_at(owner, name, group, start, stop)

    async def _warm_at(
        self, owner: Owner, name: ObjectName, group: str, start: int, stop: int | None
    ) -> AsyncGenerator[WarmUpProgress]:
        stream = None
        with suppress(PeerUnavailable):
            _, stream = await owner.peer.stream(
                {"kind": "warm", "name": encode_name(name), "group": group, "start": start, "stop": stop}
            )
        if stream is None:
            async with aclosing(self.warm_here(name, group, start, stop)) as progresses:
                async for progress in progresses:
                    yield progress
            return
        try:
            while (document := await stream.receive_document()) is not None:
                yield decode_progress(document)
        finally:
            stream.close()

    async def warm_here(
        self, name: ObjectName, group: str, start: int = 0, stop: int | None = None
    ) -> AsyncGenerator[WarmUpProgress]:
        """Warms bytes of one object in this worker. Raises OriginError, Throttled, and S3Error for a bucket without an
        origin."""
        decision = self._rules().decide(name)
        if not decision.accelerate:
            yield WarmUpProgress("problem", problem="no rule accelerates it")
            return
        turns = self._turns_of(name.bucket)
        await turns.acquire(group)
        try:
            async with aclosing(self._warm(name, decision, start, stop)) as progresses:
                async for progress in progresses:
                    yield progress
        finally:
            turns.release(group)

    async def _warm(
        self, name: ObjectName, decision: Decision, start: int, stop: int | None
    ) -> AsyncGenerator[WarmUpProgress]:
        block = decision.block
        border, run = start // block * block, self._source.bounds.edge.max_run
        first = Span(border, max(border + block, min(border + run // block * block, stop or border + run)))
        resolution = await self._resolver.resolve(LookupRequest(name, decision, first), leads=True)
        match resolution:
            case ResolvedVersion(head, _, flights, joined):
                pass
            case ErrorResponse(status, _, document):
                code = embedded_error(document)
                answer = f"{status} {code}" if code is not None else f"{status}"
                yield WarmUpProgress("problem", problem=f"the origin answered {answer}")
                return
            case Uncacheable(reason):
                yield WarmUpProgress("problem", problem=reason)
                return
            case _:
                assert_never(resolution)
        found = WarmUpProgress("size", head.size)
        wanted = Span(start, head.size if stop is None else stop).clip(Span(0, head.size))
        opened = flights.get(0)
        if opened is not None and opened.has_landed and head.size <= head.block_size and not start:
            # Whole with its head, as most small objects are, and admitted to the tiers: there is nothing to plan.
            resolution.release_flights()
            yield found
            if not joined:
                self._source.observe(BytesWarmed(head.size, decision.rule))
            yield WarmUpProgress("arrived", wanted.length, 0 if joined else head.size)
            await self._keep_up(head.size)
            return
        view = ObjectView(name, head, decision.rule)
        body = OrderedBody(self._source, view, wanted, flights, joined=joined)
        unflushed = 0
        try:
            yield found
            async with aclosing(body.arrivals()) as arrivals:
                async for span, fetched in arrivals:
                    if fetched:
                        self._source.observe(BytesWarmed(span.length, decision.rule))
                    yield WarmUpProgress("arrived", span.clip(wanted).length, span.length if fetched else 0)
                    unflushed += span.length
                    if unflushed >= FLUSH_BYTES:
                        unflushed = 0
                        await self._source.tiers.flush()
        finally:
            body.close()
            resolution.release_flights()
        await self._source.tiers.flush()

    async def _keep_up(self, size: int) -> None:
        """Counts a small object that was admitted. Waits for the SSD tier when there are many that it may not have
        stored."""
        self._unflushed += size + UNFLUSHED_OVERHEAD
        if self._unflushed >= SMALL_FLUSH_BYTES:
            self._unflushed = 0
            await self._source.tiers.flush()
