"""The peer service: answers the RPC calls of the node's other workers, by the tables of rpc.*_methods.

    rpc.read_methods        resolve, read                           of objects that this worker owns
    rpc.opening_answers     openings                                of small objects that it owns
    rpc.namespace_methods   list, listed, relisted, ...             of namespaces that it owns
    rpc.write_methods       fence, forget, install, ...             of writes that the calling worker carries
    rpc.lock_methods        is_being_deleted, await_writes, ...     of the writes that this worker carries
    rpc.journal_methods     pending, settled, backlog, ...          of the journal of the node
    rpc.job_methods         warm, fetch_ahead, plan_*, ...          of jobs
    rpc.node_read_methods   reads, data_set_rows, ...               of the reads of the node

The socket decides who may call (forebay.server.rpc.rpc_server).
"""

from collections.abc import Callable

from forebay.core.errors import PeerUnavailable
from forebay.peers.frames import Document
from forebay.peers.opening_frames import OpeningConnection
from forebay.server.rpc.rpc_methods import OpenWrites, Ordered, ResponseWriter, RpcMethods, Streaming, Unary
from forebay.server.rpc.write_methods import WriteMethods


class PeerService:
    """The RPC methods of one worker. They raise PeerUnavailable for a document that does not fit, and ForebayError."""

    def __init__(
        self,
        writes: WriteMethods,
        *others: RpcMethods,
        answer_openings: Callable[[], OpeningConnection] | None = None,
    ) -> None:
        """`answer_openings`: makes the owner's end of a connection for openings; None: there are none."""
        tables = (writes.methods, *others)
        self.writes = writes
        self.answer_openings = answer_openings
        self.streaming: dict[str, Streaming] = {}
        self.ordered: dict[str, Ordered] = {}
        self.unary: dict[str, Unary] = {}
        for each in tables:
            self.streaming |= each.streaming
            self.ordered |= each.ordered
            self.unary |= each.unary

    async def stream(self, kind: str, request: Document, out: ResponseWriter) -> None:
        """Runs a streaming method."""
        await self.streaming[kind](request, out)

    async def call(self, kind: str, request: Document, writes: OpenWrites) -> Document:
        """Runs any other method and returns its response. `writes`: those of the calling worker."""
        if (ordered := self.ordered.get(kind)) is not None:
            return ordered(request, writes) or {}
        if (unary := self.unary.get(kind)) is not None:
            return await unary(request)
        raise PeerUnavailable(f"unknown method: {kind}")
