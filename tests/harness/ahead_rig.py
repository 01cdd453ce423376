"""A prefetcher over the fetch rig, with a budget of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName
from forebay.jobs.prefetch.prefetch_request import PrefetchOutcome, PrefetchRequest
from forebay.jobs.prefetch.prefetcher import Prefetcher
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.resolution import ResolvedVersion
from forebay.policy.rules import Rules
from harness.fetch_rig import BLOCK, DECISION, NAME, FetchRig, fetch_rig

CONNECTION = ObjectName(NAME.bucket, "connection")


@dataclass
class AheadRig:
    rig: FetchRig
    prefetcher: Prefetcher
    counted: dict[str, int]
    is_direct: ClassVar = False
    """Whether fetches find an idle connection to the origin: a plain one is direct then."""

    async def fetch(self, request: PrefetchRequest) -> PrefetchOutcome:
        """As a plan fetches."""
        if self.is_direct:
            await self.open_at_origin()
        return await self.prefetcher.fetch(request)

    async def open_at_origin(self) -> None:
        """Makes a connection to the origin that is idle."""
        self.rig.origin.store.put(*CONNECTION, b"x")
        lookup = LookupRequest(CONNECTION, replace(DECISION, accelerate=True), Span(0, BLOCK))
        found = await self.rig.versions.fetch(lookup, None, strict=False)
        assert isinstance(found, ResolvedVersion)
        found.release_flights()
        await self.rig.tiers.forget(CONNECTION)

    async def read(self, span: Span) -> bytes:
        """A reader's bytes, as the full lane has them."""
        head = self.rig.heads.current(NAME)
        assert head is not None
        body = self.rig.body(head, span, self.rig.block_source(deadline=5.0))
        try:
            return b"".join([bytes(piece) async for _, piece in body.pieces()])
        finally:
            body.close()

    @property
    def origin_reads(self) -> int:
        log = self.rig.origin.log
        return log.count("GET") - log.count("GET", key=CONNECTION.key)


@asynccontextmanager
async def ahead_rig(
    *, ahead: int = 1 << 24, accelerate: bool = True, fail_at: int = -1, fails: str = "useless", **settings: Any
) -> AsyncIterator[AheadRig]:
    """`fail_at`: bytes that were useless, or what `fails` says, at which their counter fails."""
    async with fetch_rig(**settings) as rig:
        rig.tiers.memory.ahead.budget.resize(ahead)
        counted: dict[str, int] = {}

        def count(result: str, size: int) -> None:
            counted[result] = counted.get(result, 0) + size
            if result == fails and counted[result] == fail_at:
                raise ArithmeticError("a counter of the test's")

        rules = Rules([], replace(DECISION, accelerate=accelerate))
        turns = rig.reads.client.reads.background
        source = rig.block_source(deadline=5.0)
        yield AheadRig(
            rig,
            Prefetcher(
                rig.resolver, source, rig.openings, lambda _: turns, lambda: rules, rig.timers, rig.tasks.spawn, count
            ),
            counted,
        )
        assert (turns.in_use, turns.waiting) == (0, 0)
