"""The RPC methods of reads: the owner of an object resolves its head and reads its blocks for the worker that serves
the client. The server side of peers.owners. The calling worker has authenticated and authorised
the request.
"""

from collections.abc import Callable
from contextlib import aclosing
from typing import assert_never

from forebay.core.byte_ranges import Span, blocks_touching
from forebay.core.errors import PeerUnavailable, Throttled, VersionChanged
from forebay.core.names import ObjectName
from forebay.fetch.block_source import BlockSource
from forebay.fetch.fetch_request import ObjectView
from forebay.fetch.ordered_body import OrderedBody
from forebay.metadata.lookup_request import LookupRequest
from forebay.metadata.object_heads import ObjectHeads
from forebay.metadata.resolution import Resolution, ResolvedVersion
from forebay.metadata.resolver import Resolver
from forebay.origin.reads.read_outcomes import ErrorResponse, Uncacheable
from forebay.peers.frames import WHOLE_PAYLOAD, Document
from forebay.peers.peer_codec import (
    decode,
    decode_head,
    decode_name,
    decode_span,
    encode_error_response,
    encode_head,
    encode_span,
)
from forebay.policy.coalescing import BlockState
from forebay.policy.rules import Decision
from forebay.request.admission import GatewayPolicy
from forebay.server.rpc.rpc_methods import ResponseWriter, RpcMethods, origin_identity


class ReadMethods:
    """Reads objects that this worker owns. `policy` returns the one in force."""

    def __init__(
        self, resolver: Resolver, source: BlockSource, heads: ObjectHeads, policy: Callable[[], GatewayPolicy]
    ) -> None:
        self._resolver = resolver
        self._source = source
        self._heads = heads
        self._policy = policy
        self.methods = RpcMethods(streaming={"resolve": self._resolve, "read": self._read})

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
        stop = span.stop // block * block if span.stop < size else size
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
        identity = origin_identity(self._policy(), request)
        self._heads.keep_hint(name, head)
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
            if whole is None or len(whole[1]) > WHOLE_PAYLOAD:
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
