"""The run source: opens responses for run readers, at the owner of the object or at the origin."""

from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, assert_never

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginBroken, OriginRefused, OriginUnfit, PeerUnavailable, VersionChanged
from forebay.core.events import HeadContradicted, Observe
from forebay.core.names import BlockId, ObjectName
from forebay.core.sweep import Sweep
from forebay.core.task_registry import TaskRegistry
from forebay.core.timers import Timers
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.object_crc import ObjectCrc
from forebay.origin.origin_identity import request_credential
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, Revalidated, Uncacheable
from forebay.peers.owners import Peers
from forebay.policy.throughput_window import PATIENCE


class BlockStore(Protocol):
    """The part of the tiers that the fetcher uses."""

    def admit(self, block: BlockId, buffer: Buffer) -> None:
        """Stores a block."""

    def has(self, block: BlockId) -> bool:
        """Whether a block is stored."""
        ...

    def has_in_memory(self, block: BlockId) -> bool:
        """Whether a block is in memory."""
        ...

    async def forget(self, name: ObjectName) -> None:
        """Forgets the head and the blocks of an object."""


class ThroughputFloor:
    """The bytes a second below which a response of the origin is slow, and the sweep that examines all fetches."""

    def __init__(self, rate: float, timers: Timers) -> None:
        """`rate`: 0 for none."""
        self.rate = rate
        self.timers = timers
        self.sweep = Sweep(PATIENCE / 5, timers)


@dataclass(frozen=True, slots=True)
class RunSource:
    """Opens responses for run readers, and takes their reports."""

    reads: ObjectReads
    tiers: BlockStore
    peers: Peers
    tasks: TaskRegistry
    observe: Observe
    floor: ThroughputFloor
    object_crc: ObjectCrc

    async def open(self, view: ObjectView, span: Span) -> ObjectOpened:
        """Opens `span` of one version, at the worker that owns the object or at the origin. Raises ForebayError."""
        owner = self.peers.owner(view.name)
        if owner is not None:
            with suppress(PeerUnavailable):
                return await owner.read(view.name, view.head, span, view.identity)
        return await self.open_at_origin(view, span)

    async def open_at_origin(self, view: ObjectView, span: Span, *, is_hedge: bool = False) -> ObjectOpened:
        """Opens it at the origin. `is_hedge`: see OriginReads.open_read."""
        version = view.head.version
        answer = await self.reads.open_read(
            view.name,
            OriginRead(span=span, pin=version, version_id=version.version_id if view.head.by_id else None),
            credential=await request_credential(view.identity),
            is_hedge=is_hedge,
        )
        match answer:
            case ObjectOpened() if answer.facts.size == view.head.size:
                return answer  # of `span`: judged by forebay.origin.reads.verdict, for an object of this size
            case ObjectOpened():
                answer.body.close()
                self.observe(HeadContradicted())
                raise VersionChanged("another size under the same ETag")
            case ErrorResponse(status=404):
                raise VersionChanged("the object is gone")
            case ErrorResponse():
                raise OriginRefused(answer.status, answer.headers, answer.body)
            case Uncacheable():
                raise OriginUnfit(answer.reason)
            case Revalidated():
                raise OriginBroken("304 to a request without If-None-Match")
        assert_never(answer)
