"""The RPC methods of the reads of the node, which come together in one worker, and of the data sets and recordings that
are made of them. The server side of peers.node_reads, datasets and jobs.recordings.recording_access.
"""

from forebay.core.errors import PeerUnavailable
from forebay.datasets.data_set_resource import DataSetResource
from forebay.datasets.data_sets import DataSets
from forebay.jobs.recordings.kept_recordings import KeptRecordings
from forebay.peers.frames import Document
from forebay.peers.node_reads import NodeReads
from forebay.server.rpc.rpc_methods import OpenWrites, RpcMethods


class NodeReadMethods:
    """Collects the reads of other workers. `recordings`: None, another worker keeps them."""

    def __init__(
        self, reads: NodeReads, data_sets: DataSets, resource: DataSetResource, recordings: KeptRecordings | None
    ) -> None:
        self._reads = reads
        self._data_sets = data_sets
        self._resource = resource
        self._recordings = recordings
        self.methods = RpcMethods(
            ordered={
                "reads": self._receive_reads,
                "collect_reads": self._collect_reads,
                "data_set_reads": self._receive_counts,
            },
            unary={"data_set_rows": self._data_set_rows, "recordings_call": self._call_recordings},
        )

    def _receive_reads(self, request: Document, _: OpenWrites) -> Document:
        return self._reads.receive(request)

    def _collect_reads(self, request: Document, _: OpenWrites) -> None:
        self._reads.lease(request)

    def _receive_counts(self, request: Document, _: OpenWrites) -> Document:
        return self._data_sets.answer(request)

    async def _data_set_rows(self, _: Document) -> Document:
        return self._resource.answer()

    async def _call_recordings(self, request: Document) -> Document:
        if self._recordings is None:
            raise PeerUnavailable("recordings are kept by another worker")
        return await self._recordings.local.answer(request)
