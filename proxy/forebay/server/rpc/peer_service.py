"""What a worker answers the others of its node. The other side of peers.owners and of write.invalidation.

    resolve, open, warm     with bytes or with progress, each on a connection of its own
    fence, forget, ended    of a write that another worker carries
    learnt, gone            what the owner of an object has learnt behind our back
    part, wrote             what another worker has taken, of an upload or as an object
    doubts, install, flush

The questions were authenticated and authorised by the worker that asks; who may ask is the socket's to know
(forebay.server.rpc.rpc_server). A document that doesn't fit raises PeerUnavailable, and the connection ends.
"""

from collections.abc import Callable
from contextlib import aclosing
from typing import Final, Protocol, assert_never

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.errors import VersionChanged
from forebay.core.fences import Doubts
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.ordered_body import BlockSource, OrderedBody
from forebay.jobs.warm_up import WarmUps
from forebay.metadata.peer_hints import PeerHints
from forebay.metadata.resolver import LookupRequest, Resolver
from forebay.metadata.shared_lookup import ResolvedVersion
from forebay.metadata.staged_objects import StagedBody, StagedObjects, decode_staged
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.frames import Document, PeerUnavailable
from forebay.peers.peer_codec import (
    decode,
    decode_head,
    decode_name,
    decode_span,
    encode_head,
    encode_name,
    encode_refusal,
    encode_span,
)
from forebay.policy.coalescing import Place
from forebay.request.admission import GatewayPolicy
from forebay.write.invalidation import AffectedKeys, Invalidator, decode_affected
from forebay.write.tracked_write import WriteTracker

STREAMED: Final = frozenset({"resolve", "open", "warm"})
"""Asked on a connection of their own."""


class ResponseWriter(Protocol):
    """What an answer with bytes is written to."""

    async def send(self, document: Document) -> None: ...

    async def send_bytes(self, buffer: Buffer) -> None: ...

    async def send_end(self) -> None: ...


class OpenWrites:
    """The writes that one other worker has begun and not settled. Ends with its link."""

    def __init__(self) -> None:
        self._affected: dict[int, AffectedKeys] = {}

    def add(self, write: int, affected: AffectedKeys) -> None:
        self._affected[write] = affected

    def remove(self, write: int) -> None:
        self._affected.pop(write, None)

    def remaining(self) -> list[AffectedKeys]:
        return list(self._affected.values())


class PeerService:
    """Answers. One for a worker; `policy` gives what is in force when it is asked."""

    def __init__(
        self,
        resolver: Resolver,
        hints: PeerHints,
        staged: StagedObjects,
        source: BlockSource,
        invalidator: Invalidator,
        in_doubt_writes: Doubts,
        warm_ups: WarmUps,
        tracker: WriteTracker,
        policy: Callable[[], GatewayPolicy],
        clock: Callable[[], float],
    ) -> None:
        self._resolver = resolver
        self._hints = hints
        self._staged_objects = staged
        self._source = source
        self._invalidator = invalidator
        self._in_doubt_writes = in_doubt_writes
        self._warm_ups = warm_ups
        self._tracker = tracker
        self._policy = policy
        self._clock = clock

    # With bytes

    async def stream(self, kind: str, question: Document, out: ResponseWriter) -> None:
        """Raises PeerUnavailable and what reading fails with."""
        match kind:
            case "resolve":
                await self._resolve(question, out)
            case "open":
                await self._open(question, out)
            case "warm":
                await self._warm(question, out)
            case _:
                raise PeerUnavailable(f"no such question: {kind}")

    async def _resolve(self, question: Document, out: ResponseWriter) -> None:
        name = decode(lambda: decode_name(question["name"]))
        span = decode(lambda: decode_span(question["span"]) if question["span"] is not None else None)
        unless = question.get("unless")
        decision = self._policy().rules.decide(name)
        version_id = question.get("version")
        found = await self._resolver.resolve(
            LookupRequest(
                name,
                decision,
                span,
                no_cache=question.get("strict") is True,
                version_id=str(version_id) if version_id is not None else None,
            )
        )
        match found:
            case ResolvedVersion(head, how, arriving, joined):
                told = {"head": encode_head(head), "how": how}
                coming = (
                    None if span is None or head.generation.hex() == unless else self._blocks_to_send(name, head, span)
                )
                if coming is None:
                    await out.send(told)
                    return
                fetched = bool(arriving) and not joined
                view = ObjectView(name, head, decision.rule)
                body = OrderedBody(self._source, view, coming, arriving, joined=joined)
                await self._send(told, coming, body, out, fetched=fetched)
            case ErrorResponse():
                await out.send({"refused": encode_refusal(found)})
            case Uncacheable(reason):
                await out.send({"foreign": reason})
            case _:
                assert_never(found)

    def _blocks_to_send(self, name: ObjectName, head: Head, span: Span) -> Span | None:
        """The whole blocks of `span`, which was cut before the head was known; None if there are none, or if they lie
        in the tier that the other worker reads as well as we do."""
        block = head.block_size
        stop = min(span.stop // block * block if span.stop < head.size else head.size, head.size)
        if span.start % block or stop <= span.start:
            return None
        coming, ssd = Span(span.start, stop), self._source.tiers.ssd
        numbers = blocks_touching(coming, block)
        if ssd is not None and all(ssd.has(BlockId(name, head.generation, number)) for number in numbers):
            return None
        return coming

    async def _open(self, question: Document, out: ResponseWriter) -> None:
        name = decode(lambda: decode_name(question["name"]))
        head = decode(lambda: decode_head(question["head"]))
        span = decode(lambda: decode_span(question["span"]))
        if not span.length or span.stop > head.size:
            raise PeerUnavailable(f"{span} of {head.size} bytes")
        identity = self._identity(question)
        self._hints.head_seen(name, head)
        rule = self._policy().rules.decide(name).rule
        body = OrderedBody(self._source, ObjectView(name, head, rule, identity), span)
        try:
            await self._send({}, span, body, out)
        except VersionChanged:
            await self._resolver.invalidate(name, head)
            raise

    async def _send(
        self, told: Document, span: Span, body: OrderedBody, out: ResponseWriter, *, fetched: bool = False
    ) -> None:
        """`fetched`: its first bytes are on their way already, for this answer."""
        try:
            await body.plan()
            places = set(body.locations)
            source = (
                "flight" if fetched or Place.MISSING in places else "joined" if Place.IN_FLIGHT in places else "worker"
            )
            await out.send(told | {"span": encode_span(span), "source": source})
            async with aclosing(body.pieces()) as pieces:
                async for _, buffer in pieces:
                    await out.send_bytes(buffer)
            await out.send_end()
        finally:
            body.close()

    async def _warm(self, question: Document, out: ResponseWriter) -> None:
        name = decode(lambda: decode_name(question["name"]))
        await out.send({})
        async with aclosing(self._warm_ups.warm_object(name)) as progresses:
            async for progress in progresses:
                await out.send(progress.encode())
        await out.send_end()

    # Without

    async def call(self, kind: str, question: Document, writes: OpenWrites) -> Document:
        """`writes`: those of the worker that asks. Raises PeerUnavailable, ForebayError."""
        match kind:
            case "fence":
                touched, keep = _decode_affected(question)
                if (write := question.get("write")) is not None:
                    writes.add(int(write), touched)
                if (until := question.get("doubt")) is not None:
                    self._invalidator.mark_in_doubt(touched, float(until))
                self._invalidator.fence(touched)
                self._invalidator.drop(touched, keep)
            case "forget":
                touched, keep = _decode_affected(question)
                await self._invalidator.forget(touched, keep)
            case "ended":
                writes.remove(decode(lambda: int(question["write"])))
            case "learnt":
                self._hints.head_changed(
                    *decode(lambda: (decode_name(question["name"]), decode_head(question["head"])))
                )
            case "gone":
                self._hints.head_removed(
                    *decode(lambda: (decode_name(question["name"]), decode_head(question["head"])))
                )
            case "doubts":
                return {"doubts": [_encode_in_doubt_write(*each) for each in self._in_doubt_writes.held(self._clock())]}
            case "install":
                name, staged, identity = decode(lambda: self._decode_install(question))
                self._staged_objects.install(name, staged, identity)
            case "part":
                self._tracker.registry.receive(question)
            case "wrote":
                self._tracker.digests.receive(question)
            case "flush":
                await self._source.tiers.flush()
            case _:
                raise PeerUnavailable(f"no such question: {kind}")
        return {}

    async def caller_died(self, writes: OpenWrites) -> None:
        """The worker whose writes these were is gone: nobody knows what became of them."""
        for touched in writes.remaining():
            self._invalidator.mark_in_doubt(touched)
            self._invalidator.fence(touched)
            await self._invalidator.forget(touched)

    def load_in_doubt_writes(self, answer: Document) -> None:
        """What another worker answered to `doubts`, when this one begins."""
        for what, until in answer["doubts"]:
            self._in_doubt_writes.take(what if what is None or isinstance(what, str) else decode_name(what), until)

    def _decode_install(self, question: Document) -> tuple[ObjectName, StagedBody, OriginIdentity | None]:
        return decode_name(question["name"]), decode_staged(question["staged"]), self._identity(question)

    def _identity(self, question: Document) -> OriginIdentity | None:
        """Never in Forebay's own name what was to be asked in another's."""
        given = question.get("asker")
        identity = self._policy().keyring.origin_identities.get(given) if isinstance(given, str) else None
        if given is not None and identity is None:
            raise PeerUnavailable("a principal that is not known here")
        return identity


def _decode_affected(question: Document) -> tuple[AffectedKeys, Generation | None]:
    keep = question.get("keep")
    return decode(lambda: (decode_affected(question), Generation(bytes.fromhex(keep)) if keep is not None else None))


def _encode_in_doubt_write(what: ObjectName | str | None, until: float) -> list[object]:
    return [encode_name(what) if isinstance(what, ObjectName) else what, until]
