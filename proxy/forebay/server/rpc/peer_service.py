"""The peer service: what the workers of a node answer each other. The server side of peers.owners, write.invalidation
and metadata.peer_hints.

    streaming, a connection each    resolve, read, warm, list
    ordered, in order of arrival    fence, write_ended     a write that the calling worker carries
                                    part, wrote            a part or an object that the calling worker has written
                                    install, in_doubt_writes
                                    reads, collect_reads   the read stream of the node (peers.node_reads)
                                    finish_ahead, drop_ahead    what was fetched ahead for the calling worker
                                    data_set_reads         counts and samples of reads (datasets.read_counts)
    unary, in any order             forget, flush, residency, fetch_ahead, listed, drop_listings
                                    members_hidden         by tombstones that the calling worker has written
                                    plan_added, plan_list, plan_cancelled   of the node's coordinator
                                    recordings             of the node's collector
                                    data_set_rows          what this worker knows of data sets

The calling worker has authenticated and authorised the request; who may call at all is the socket's concern
(forebay.server.rpc.rpc_server). A document that does not fit raises PeerUnavailable, which ends the connection.
"""

from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import Any, ClassVar, Protocol, TypeAlias, assert_never

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.errors import PeerUnavailable, Throttled, VersionChanged
from forebay.core.fences import InDoubtWrites
from forebay.core.names import Generation, ObjectName
from forebay.datasets.data_sets import DataSets
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.ordered_body import BlockSource, OrderedBody
from forebay.jobs.cache_residency import encode_residency
from forebay.jobs.node_prefetcher import decode_ahead_request, finish_ahead
from forebay.jobs.object_warmer import ObjectWarmer
from forebay.jobs.owner_warm_up import answer_owner_call
from forebay.jobs.plans.node_plans import NodePlans
from forebay.jobs.prefetcher import Prefetcher
from forebay.jobs.recordings.recording_access import LocalRecordings
from forebay.metadata.peer_hints import PeerHints
from forebay.metadata.resolver import LookupRequest, Resolver
from forebay.metadata.shared_lookup import Resolution, ResolvedVersion
from forebay.metadata.staged_objects import StagedObjects, decode_staged
from forebay.namespace.listings import Listings
from forebay.namespace.namespace_owners import decode_query, encode_entry
from forebay.namespace.packs.pack_catalogue import PackCatalogue
from forebay.origin.origin_identity import OriginIdentity
from forebay.origin.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.frames import SEND_PAYLOAD, Document
from forebay.peers.node_reads import NodeReads
from forebay.peers.peer_codec import (
    decode,
    decode_head,
    decode_name,
    decode_span,
    encode_error_response,
    encode_head,
    encode_name,
    encode_span,
)
from forebay.policy.coalescing import BlockState
from forebay.policy.rules import Decision
from forebay.request.admission import GatewayPolicy
from forebay.server.data_set_resource import DataSetResource
from forebay.write.back.node_backlog import NodeBacklog
from forebay.write.back.write_back import WriteBack
from forebay.write.invalidation import AffectedKeys, Invalidator, decode_affected
from forebay.write.packed_deletions import receive_hidden
from forebay.write.tracked_write import WriteTracker


class ResponseWriter(Protocol):
    """Where a streaming method writes its response: one document, then bytes or documents, then the end."""

    def write(self, document: Document) -> None:
        """Writes a document to the send buffer. Raises PeerUnavailable."""

    async def send(self, document: Document) -> None:
        """Sends a document. Raises PeerUnavailable."""

    async def send_bytes(self, buffer: Buffer) -> None:
        """Sends bytes. Raises PeerUnavailable."""

    async def send_whole(self, document: Document, buffer: Buffer) -> None:
        """Sends a whole response, of one document and at most SEND_PAYLOAD bytes. Raises PeerUnavailable."""

    async def send_end(self) -> None:
        """Ends the response. Raises PeerUnavailable."""


class OpenWrites:
    """The writes under way in one other worker. Lives as long as the link from that worker."""

    def __init__(self) -> None:
        self._affected: dict[int, AffectedKeys] = {}

    def add(self, write: int, affected: AffectedKeys) -> None:
        """Adds a write and the keys that it affects."""
        self._affected[write] = affected

    def remove(self, write: int) -> None:
        """Removes a write that has been invalidated for the last time."""
        self._affected.pop(write, None)

    def remaining(self) -> list[AffectedKeys]:
        """Returns the keys affected by each write under way."""
        return list(self._affected.values())


class PeerService:
    """The RPC methods of one worker; the tables at the end of the class name them. `policy` returns the one in force.

    Methods raise PeerUnavailable for a document that does not fit, and ForebayError, which the caller gets as its own.
    """

    def __init__(
        self,
        resolver: Resolver,
        hints: PeerHints,
        staged: StagedObjects,
        source: BlockSource,
        invalidator: Invalidator,
        in_doubt_writes: InDoubtWrites,
        warmer: ObjectWarmer,
        tracker: WriteTracker,
        listings: Listings,
        catalogue: PackCatalogue,
        node_reads: NodeReads,
        prefetcher: Prefetcher,
        data_sets: DataSets,
        data_set_resource: DataSetResource,
        plans: NodePlans,
        recordings: LocalRecordings | None,
        policy: Callable[[], GatewayPolicy],
        clock: Callable[[], float],
        write_back: WriteBack | None = None,
        backlog: NodeBacklog | None = None,
    ) -> None:
        self._resolver = resolver
        self._hints = hints
        self._staged_objects = staged
        self._source = source
        self._invalidator = invalidator
        self._in_doubt_writes = in_doubt_writes
        self._warmer = warmer
        self._tracker = tracker
        self._listings = listings
        self._catalogue = catalogue
        self._node_reads = node_reads
        self._prefetcher = prefetcher
        self._data_sets = data_sets
        self._data_set_resource = data_set_resource
        self._plans = plans
        self._recordings = recordings
        self._policy = policy
        self._clock = clock
        self._write_back = write_back
        self._backlog = backlog

    async def stream(self, kind: str, request: Document, out: ResponseWriter) -> None:
        """Runs a streaming method."""
        await self.STREAMING[kind](self, request, out)

    async def call(self, kind: str, request: Document, writes: OpenWrites) -> Document:
        """Runs any other method and returns its response. `writes`: those of the calling worker."""
        if (ordered := self.ORDERED.get(kind)) is not None:
            return ordered(self, request, writes) or {}
        if (unary := self.UNARY.get(kind)) is not None:
            return await unary(self, request)
        raise PeerUnavailable(f"unknown method: {kind}")

    async def caller_died(self, writes: OpenWrites) -> None:
        """Invalidates the writes under way in a worker that has ended, and marks them in doubt: whether they reached
        the origin is not known."""
        for affected in writes.remaining():
            self._invalidator.mark_in_doubt(affected)
            self._invalidator.fence(affected)
            await self._invalidator.forget(affected)

    def load_in_doubt_writes(self, response: Document) -> None:
        """Takes over another worker's in-doubt writes, from its response to `in_doubt_writes`. Done once, at start."""
        for key, until in response["writes"]:
            self._in_doubt_writes.merge(key if key is None or isinstance(key, str) else decode_name(key), until)

    # Streaming

    async def _resolve(self, request: Document, out: ResponseWriter) -> None:
        name = decode(lambda: decode_name(request["name"]))
        span = decode(lambda: decode_span(request["span"]) if request["span"] is not None else None)
        decision = self._policy().rules.decide(name)
        version_id = request.get("version")
        resolution = await self._resolver.resolve(
            LookupRequest(
                name,
                decision,
                span,
                no_cache=request.get("strict") is True,
                version_id=str(version_id) if version_id is not None else None,
            ),
            leads=True,
        )
        try:
            await self._respond(resolution, name, decision, span, request.get("unless"), out)
        finally:
            if isinstance(resolution, ResolvedVersion):
                resolution.release_flights()

    async def _respond(
        self,
        resolution: Resolution,
        name: ObjectName,
        decision: Decision,
        span: Span | None,
        unless: object,
        out: ResponseWriter,
    ) -> None:
        match resolution:
            case ResolvedVersion(head, status, flights, joined):
                response = {"head": encode_head(head), "status": status}
                view = ObjectView(name, head, decision.rule)
                is_known = head.generation.hex() == unless
                blocks = None if span is None or is_known else self._blocks_to_send(view, span)
                if blocks is None:
                    await out.send(response)
                    return
                body = OrderedBody(self._source, view, blocks, flights, joined=joined)
                await self._send(response, blocks, body, out, fetched=bool(flights) and not joined)
            case ErrorResponse():
                await out.send({"error": encode_error_response(resolution)})
            case Uncacheable(reason):
                await out.send({"uncacheable": reason})
            case _:
                assert_never(resolution)

    def _blocks_to_send(self, view: ObjectView, span: Span) -> Span | None:
        """Returns the whole blocks of `span`, which was chosen before the head was known. None: there are none, or all
        are in the tier that both workers read."""
        block, size = view.head.block_size, view.head.size
        stop = min(span.stop // block * block if span.stop < size else size, size)
        if span.start % block or stop <= span.start:
            return None
        blocks, ssd = Span(span.start, stop), self._source.tiers.ssd
        if ssd is not None and all(ssd.has(view.block(number)) for number in blocks_touching(blocks, block)):
            return None
        return blocks

    async def _read(self, request: Document, out: ResponseWriter) -> None:
        name = decode(lambda: decode_name(request["name"]))
        head = decode(lambda: decode_head(request["head"]))
        span = decode(lambda: decode_span(request["span"]))
        if not span.length or span.stop > head.size:
            raise PeerUnavailable(f"{span} of {head.size} bytes")
        identity = self._identity(request)
        self._hints.head_seen(name, head)
        view = ObjectView(name, head, self._policy().rules.decide(name).rule, identity)
        try:
            await self._send({}, span, OrderedBody(self._source, view, span), out)
        except VersionChanged:
            await self._resolver.invalidate(name, head)
            raise

    async def _send(
        self, response: Document, span: Span, body: OrderedBody, out: ResponseWriter, *, fetched: bool = False
    ) -> None:
        """Sends a body. `fetched`: its first bytes are on their way already, for this response."""
        try:
            whole = body.single_buffer()
            if whole is None or len(whole[1]) > SEND_PAYLOAD:
                whole = None
                try:
                    await body.plan()
                except Throttled:
                    if not response:
                        raise
                    await out.send(response)  # the head by itself
                    return
            locations = set(body.locations)
            source = "worker"
            if fetched or BlockState.MISSING in locations:
                source = "flight"
            elif BlockState.IN_FLIGHT in locations:
                source = "joined"
            response |= {"span": encode_span(span), "source": source}
            if whole is not None:
                await out.send_whole(response, whole[1])
                return
            await out.send(response)
            async with aclosing(body.pieces()) as pieces:
                async for _, buffer in pieces:
                    await out.send_bytes(buffer)
            await out.send_end()
        finally:
            body.close()

    async def _warm(self, request: Document, out: ResponseWriter) -> None:
        await answer_owner_call(request, self._warmer, out)

    async def _list(self, request: Document, out: ResponseWriter) -> None:
        query = decode(lambda: decode_query(request["query"]))
        answer = await self._listings.answer(query)
        if answer is None:
            await out.send({})
            return
        await out.send({"source": answer.source, "size": len(answer.document)})
        await out.send_bytes(memoryview(answer.document))
        await out.send_end()

    # Ordered

    def _fence(self, request: Document, writes: OpenWrites) -> None:
        affected, keep = _decode_affected(request)
        if (write := request.get("write")) is not None:
            writes.add(int(write), affected)
        if (until := request.get("doubt")) is not None:
            self._invalidator.mark_in_doubt(affected, float(until))
        self._invalidator.fence(affected)
        self._invalidator.drop(affected, keep)

    def _write_ended(self, request: Document, writes: OpenWrites) -> None:
        writes.remove(decode(lambda: int(request["write"])))

    def _list_in_doubt_writes(self, _: Document, __: OpenWrites) -> Document:
        known = self._in_doubt_writes.snapshot(self._clock())
        return {"writes": [[encode_name(key) if isinstance(key, ObjectName) else key, until] for key, until in known]}

    def _install(self, request: Document, _: OpenWrites) -> None:
        name, staged = decode(lambda: (decode_name(request["name"]), decode_staged(request["staged"])))
        self._staged_objects.install(name, staged, self._identity(request))

    def _part(self, request: Document, _: OpenWrites) -> None:
        self._tracker.registry.receive(request)

    def _wrote(self, request: Document, _: OpenWrites) -> None:
        self._tracker.digests.receive(request)

    def _reads(self, request: Document, _: OpenWrites) -> Document:
        return self._node_reads.receive(request)

    def _collect_reads(self, request: Document, _: OpenWrites) -> None:
        self._node_reads.lease(request)

    def _finish_ahead(self, request: Document, _: OpenWrites) -> None:
        finish_ahead(self._prefetcher, request)

    def _drop_ahead(self, _: Document, __: OpenWrites) -> None:
        self._prefetcher.drop_all()

    def _data_set_reads(self, request: Document, _: OpenWrites) -> Document:
        return self._data_sets.answer(request)

    def _pending(self, request: Document, _: OpenWrites) -> None:
        if self._write_back is not None:
            self._write_back.exchange.receive_pending(request)

    def _settled(self, request: Document, _: OpenWrites) -> None:
        if self._write_back is not None:
            self._write_back.exchange.receive_settled(request)

    def _write_proof(self, request: Document, _: OpenWrites) -> None:
        if self._write_back is not None:
            self._write_back.proofs.receive(request)

    def _completion(self, request: Document, _: OpenWrites) -> Document:
        return self._write_back.check_completion(request) if self._write_back is not None else {}

    def _upload_parts(self, request: Document, _: OpenWrites) -> Document:
        return self._write_back.expiry.receive(request) if self._write_back is not None else {}

    def _written_through(self, request: Document, _: OpenWrites) -> None:
        if self._write_back is not None:
            self._write_back.receive_made(request)

    # Unary

    async def _fetch_ahead(self, request: Document) -> Document:
        outcome = await self._prefetcher.fetch(decode_ahead_request(request, self._identity(request)))
        return {"outcome": outcome}

    async def _add_plan(self, request: Document) -> Document:
        await self._plans.add(decode(lambda: str(request["plan"])))
        return {}

    async def _list_plans(self, _: Document) -> Document:
        return {"plans": [asdict(each) for each in await self._plans.plans()]}

    async def _cancel_plan(self, request: Document) -> Document:
        await self._plans.cancel(decode(lambda: str(request["plan"])))
        return {}

    async def _journal_scanned(self, _: Document) -> Document:
        if self._write_back is not None:
            await self._write_back.receive_scan()
        return {}

    async def _call_backlog(self, request: Document) -> Document:
        return await self._backlog.answer(request) if self._backlog is not None else {}

    async def _forget(self, request: Document) -> Document:
        affected, keep = _decode_affected(request)
        await self._invalidator.forget(affected, keep)
        return {}

    async def _flush(self, _: Document) -> Document:
        await self._source.tiers.flush()
        return {}

    async def _residency(self, request: Document) -> Document:
        return await encode_residency(self._source.tiers, request)

    async def _listed(self, request: Document) -> Document:
        return encode_entry(await self._listings.entry(decode(lambda: decode_name(request["name"]))))

    async def _drop_listings(self, request: Document) -> Document:
        bucket, prefix = decode(lambda: (str(request["bucket"]), str(request["prefix"])))
        self._listings.drop(bucket, prefix)
        self._catalogue.drop(bucket)
        return {}

    async def _members_hidden(self, request: Document) -> Document:
        await receive_hidden(self._catalogue, request)
        return {}

    async def _data_set_rows(self, _: Document) -> Document:
        return self._data_set_resource.answer()

    async def _recordings_call(self, request: Document) -> Document:
        if self._recordings is None:
            raise PeerUnavailable("recordings are kept by another worker")
        return await self._recordings.answer(request)

    def _identity(self, request: Document) -> OriginIdentity | None:
        """Returns the identity that the origin is asked with; None: Forebay's own. Raises PeerUnavailable for an
        unknown one: its request is never sent as Forebay's own."""
        principal = request.get("identity")
        identity = self._policy().keyring.origin_identities.get(principal) if isinstance(principal, str) else None
        if principal is not None and identity is None:
            raise PeerUnavailable("a principal that is not known here")
        return identity

    STREAMING: ClassVar[Mapping[str, "_Streaming"]] = {"resolve": _resolve, "read": _read, "warm": _warm, "list": _list}
    ORDERED: ClassVar[Mapping[str, "_Ordered"]] = {
        "fence": _fence,
        "write_ended": _write_ended,
        "in_doubt_writes": _list_in_doubt_writes,
        "install": _install,
        "part": _part,
        "wrote": _wrote,
        "reads": _reads,
        "collect_reads": _collect_reads,
        "finish_ahead": _finish_ahead,
        "drop_ahead": _drop_ahead,
        "data_set_reads": _data_set_reads,
        "pending": _pending,
        "settled": _settled,
        "write_proof": _write_proof,
        "completion": _completion,
        "upload_parts": _upload_parts,
        "written_through": _written_through,
    }
    """None of these waits, so that calls take effect in the order in which they arrive."""
    UNARY: ClassVar[Mapping[str, "_Unary"]] = {
        "forget": _forget,
        "flush": _flush,
        "residency": _residency,
        "fetch_ahead": _fetch_ahead,
        "listed": _listed,
        "drop_listings": _drop_listings,
        "members_hidden": _members_hidden,
        "plan_added": _add_plan,
        "plan_list": _list_plans,
        "plan_cancelled": _cancel_plan,
        "recordings_call": _recordings_call,
        "data_set_rows": _data_set_rows,
        "journal_scanned": _journal_scanned,
        "backlog": _call_backlog,
    }


_Streaming: TypeAlias = Callable[[PeerService, Document, ResponseWriter], Coroutine[Any, Any, None]]
_Ordered: TypeAlias = Callable[[PeerService, Document, OpenWrites], Document | None]
_Unary: TypeAlias = Callable[[PeerService, Document], Coroutine[Any, Any, Document]]


def _decode_affected(request: Document) -> tuple[AffectedKeys, Generation | None]:
    keep = request.get("keep")
    return decode(lambda: (decode_affected(request), Generation(bytes.fromhex(keep)) if keep is not None else None))
