"""The object warmer: brings one object into the cache, for a warm-up job or for another worker's job.

    background turn ──> resolve ──> fetch the missing blocks ──> the tiers

It reads as a client does, under the same rules and through the same flights. But it begins no fetch that demand would
have to wait for (origin.turns.background_turns), skips cached blocks, and waits for the SSD tier to keep up: after each
large object, and now and then between small ones. To know what is stored in the end, the caller flushes the tiers. An
object that another worker owns is warmed by that worker.

Small objects that are not cached need none of that: jobs.warm_up.direct_warm_up.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, TypeAlias, assert_never

from forebay.core.byte_ranges import Span
from forebay.core.errors import ForebayError, OriginRefused, PeerNotListening, PeerUnavailable
from forebay.core.events import BytesWarmed
from forebay.core.names import ObjectName
from forebay.core.requester import BACKGROUND, requester
from forebay.fetch.block_source import BlockSource
from forebay.fetch.ordered_body import OrderedBody
from forebay.jobs.prefetch.transient_failures import is_transient_status
from forebay.jobs.warm_up.direct_warm_up import DirectRun, DirectWarmer
from forebay.jobs.warm_up.owner_warm_up import Report, WarmUpPiece, WarmUpProgress, warm_at_owner
from forebay.metadata.direct_openings import DirectOpenings
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.packed_objects import PackedObjects
from forebay.metadata.resolution import ResolvedVersion
from forebay.metadata.resolver import Resolver
from forebay.origin.http.large_body import WHOLE_LIMIT
from forebay.origin.reads.read_outcomes import ErrorResponse, Uncacheable
from forebay.origin.turns.background_turns import BackgroundTurns
from forebay.peers.owners import Owner, Peers
from forebay.policy.rules import Decision, Rules
from forebay.protocol.xml.s3_documents import embedded_error

FLUSH_BYTES: Final = 32 << 20
"""Bytes of one object that are fetched before the tiers must have stored them."""


_NumberedPiece: TypeAlias = tuple[int, tuple[ObjectName, int, int | None]]


class ObjectWarmer:
    """Warms objects. `turns_of` returns those of the origin that has a bucket, or raises S3Error; `rules` those in
    force."""

    def __init__(
        self,
        resolver: Resolver | PackedObjects,
        openings: DirectOpenings,
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
        self.direct = DirectWarmer(openings, turns_of, rules, self._first_span, source.observe)
        """The warm-up of objects that need no task."""

    def block_size(self, name: ObjectName) -> int:
        """Bytes of a block of an object that is cached now."""
        return self._rules().decide(name).block

    def owner(self, name: ObjectName) -> Owner | None:
        """The owner of an object; None: this worker."""
        return self._peers.owner(name)

    @property
    def workers(self) -> int:
        """The workers of the node."""
        return self._peers.workers

    async def warm(self, name: ObjectName, group: str, report: Report, start: int = 0, stop: int | None = None) -> None:
        """Warms the bytes of one object from `start` up to `stop`, or to its end, in the worker that owns it, or here
        if that is not there. `group`: the job, as jobs share the background turns. Raises what `warm_here` raises, and
        PeerUnavailable if the owner ends in the middle of it."""
        owner = self._peers.owner(name)
        if owner is not None:
            reported = False

            def relay(_: int, progress: WarmUpProgress) -> None:
                nonlocal reported
                reported = True
                report(progress)

            try:
                async with aclosing(warm_at_owner(owner, [WarmUpPiece(*name, start, stop)], group, relay)) as ended:
                    async for _ in ended:
                        pass
            except PeerUnavailable:
                if reported:
                    raise
            else:
                return
        await self.warm_here(name, group, report, start, stop)

    async def warm_together(
        self, owner: Owner, pieces: Sequence[WarmUpPiece], group: str, report: Callable[[int, WarmUpProgress], None]
    ) -> tuple[int, bool]:
        """Has pieces of objects warmed by their owner, one after the other, in one call. `report` gets the number of
        the piece as well. Returns how many were dealt with (the next one failed, and those behind it were not tried),
        and whether the owner has ended meanwhile: it may have done more."""
        ended, has_left = 0, False
        try:
            async with aclosing(warm_at_owner(owner, pieces, group, report)) as endings:
                async for number in endings:
                    ended = number
        except PeerNotListening:
            pass
        except PeerUnavailable:
            has_left = True
        except ForebayError:
            pass
        return ended, has_left

    async def warm_pieces(
        self,
        pieces: Sequence[tuple[ObjectName, int, int | None]],
        group: str,
        report: Callable[[int, WarmUpProgress], None],
        count_ended: Callable[[int], None],
    ) -> None:
        """See forebay.jobs.warm_up.owner_warm_up.PieceWarmer."""

        def kept(item: _NumberedPiece, size: int) -> bool:
            report(item[0], WarmUpProgress("whole", size, size))
            count_ended(item[0] + 1)
            return False

        run = DirectRun(self.direct, group, iter(list(enumerate(pieces))), _plain_name, kept)
        try:
            while not run.has_ended:
                item = await run.next()
                if item is not None:
                    number, (name, start, stop) = item
                    await self.warm_here(name, group, partial(report, number), start, stop)
                    count_ended(number + 1)
                await self.flush_if_behind()
        finally:
            run.close()

    async def warm_here(
        self, name: ObjectName, group: str, report: Report, start: int = 0, stop: int | None = None
    ) -> None:
        """Warms bytes of one object in this worker. Raises OriginError, Throttled, and S3Error for a bucket without an
        origin."""
        decision = self._rules().decide(name)
        if not decision.accelerate:
            report(WarmUpProgress("problem", problem="no rule accelerates it"))
            return
        turns = self._turns_of(name.bucket)
        await turns.acquire(group)
        before = requester.get()
        requester.set(BACKGROUND)
        try:
            await self._warm(name, decision, report, start, stop)
        finally:
            requester.set(before)
            turns.release(group)

    async def _warm(self, name: ObjectName, decision: Decision, report: Report, start: int, stop: int | None) -> None:
        first = self._first_span(decision, start, stop)
        resolution = await self._resolver.resolve(LookupRequest(name, decision, first), leads=True)
        match resolution:
            case ResolvedVersion(head, _, flights, joined, stored):
                pass
            case ErrorResponse(status, headers, document):
                if is_transient_status(status):
                    raise OriginRefused(status, headers, document)
                report(WarmUpProgress("problem", problem=refusal_problem(status, document)))
                return
            case Uncacheable(reason):
                report(WarmUpProgress("problem", problem=reason))
                return
            case _:
                assert_never(resolution)
        size = head.size
        opened = flights.get(0) if stored is None else None
        if opened is not None and opened.has_landed and size <= head.block_size and not start:
            # Whole with its head, as most small objects are, and admitted to the tiers: there is nothing to plan.
            resolution.release_flights()
            if not joined:
                self._source.observe(BytesWarmed(size, decision.rule))
            report(WarmUpProgress("whole", size, 0 if joined else size))
            self.direct.count_stored(size)
            await self.flush_if_behind()
            return
        report(WarmUpProgress("size", size))
        # Of a member of a pack, blocks are those of its shard.
        wanted = resolution.located(Span(start, size if stop is None else stop).clip(Span(0, size)))
        view = resolution.view(name, decision.rule)
        body = OrderedBody(self._source, view, wanted, flights, joined=joined)
        unflushed = 0
        try:
            async with aclosing(body.arrivals()) as arrivals:
                async for span, fetched in arrivals:
                    if fetched:
                        self._source.observe(BytesWarmed(span.length, decision.rule))
                    report(WarmUpProgress("arrived", span.clip(wanted).length, span.length if fetched else 0))
                    unflushed += span.length
                    if unflushed >= FLUSH_BYTES:
                        unflushed = 0
                        await self._source.tiers.flush()
        finally:
            body.close()
            resolution.release_flights()
        await self._source.tiers.flush()

    async def flush_if_behind(self) -> None:
        """Waits until the tiers have stored small objects, if they are far behind."""
        if self.direct.take_flush():
            await self._source.tiers.flush()

    def _first_span(self, decision: Decision, start: int = 0, stop: int | None = None) -> Span:
        """The bytes that are requested with the head of an object."""
        block, run = decision.block, self._source.bounds.edge.max_run
        border = start // block * block
        return Span(border, max(border + block, min(border + run // block * block, stop or border + run)))


def refusal_problem(status: int, document: bytes) -> str:
    """The problem of an object whose fetch the origin has refused with this status and error document."""
    code = embedded_error(document)
    return f"the origin answered {status}" if code is None else f"the origin answered {status} {code}"


def _plain_name(item: _NumberedPiece) -> ObjectName | None:
    """The name of an object that is wanted as a whole if it is small."""
    name, start, stop = item[1]
    return name if not start and (stop is None or stop >= WHOLE_LIMIT) else None
