"""The RPC methods of jobs: the owner of an object fetches it ahead of reads, and the reads, plans and recordings of the
node come together in one worker. The server side of peers.node_reads, jobs.prefetch.node_prefetcher and
jobs.plans.node_plans.
"""

from collections.abc import Callable
from dataclasses import asdict

from forebay.core.errors import PeerUnavailable
from forebay.jobs.prefetch.node_prefetcher import decode_prefetch, finish_ahead
from forebay.jobs.warmer.cache_residency import encode_residency
from forebay.jobs.warmer.owner_warm_up import answer_owner_call
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode
from forebay.request.admission import GatewayPolicy
from forebay.server.parts.job_parts import JobParts
from forebay.server.rpc.rpc_methods import OpenWrites, ResponseWriter, RpcMethods, origin_identity
from forebay.storage.tiers import Tiers


class JobMethods:
    """Works for the jobs of other workers. `policy` returns the one in force."""

    def __init__(self, jobs: JobParts, tiers: Tiers, policy: Callable[[], GatewayPolicy]) -> None:
        self._jobs = jobs
        self._tiers = tiers
        self._policy = policy
        self.methods = RpcMethods(
            streaming={"warm": self._warm},
            ordered={
                "reads": self._reads,
                "collect_reads": self._collect_reads,
                "finish_ahead": self._finish_ahead,
                "drop_ahead": self._drop_ahead,
                "data_set_reads": self._data_set_reads,
            },
            unary={
                "residency": self._residency,
                "fetch_ahead": self._fetch_ahead,
                "plan_added": self._add_plan,
                "plan_list": self._list_plans,
                "plan_cancelled": self._cancel_plan,
                "plan_removed": self._remove_plan,
                "recordings_call": self._recordings_call,
                "data_set_rows": self._data_set_rows,
            },
        )

    async def _warm(self, request: Document, out: ResponseWriter) -> None:
        await answer_owner_call(request, self._jobs.warmer, out)

    def _reads(self, request: Document, _: OpenWrites) -> Document:
        return self._jobs.node_reads.receive(request)

    def _collect_reads(self, request: Document, _: OpenWrites) -> None:
        self._jobs.node_reads.lease(request)

    def _finish_ahead(self, request: Document, _: OpenWrites) -> None:
        finish_ahead(self._jobs.prefetcher, request)

    def _drop_ahead(self, _: Document, __: OpenWrites) -> None:
        self._jobs.prefetcher.drop_all()

    def _data_set_reads(self, request: Document, _: OpenWrites) -> Document:
        return self._jobs.data_sets.answer(request)

    async def _fetch_ahead(self, request: Document) -> Document:
        outcome = await self._jobs.prefetcher.fetch(decode_prefetch(request, origin_identity(self._policy(), request)))
        return {"outcome": outcome}

    async def _add_plan(self, request: Document) -> Document:
        await self._jobs.plans.add(decode(lambda: str(request["plan"])))
        return {}

    async def _list_plans(self, _: Document) -> Document:
        return {"plans": [asdict(each) for each in await self._jobs.plans.plans()]}

    async def _cancel_plan(self, request: Document) -> Document:
        await self._jobs.plans.cancel(decode(lambda: str(request["plan"])))
        return {}

    async def _remove_plan(self, request: Document) -> Document:
        await self._jobs.plans.remove(decode(lambda: str(request["plan"])))
        return {}

    async def _residency(self, request: Document) -> Document:
        return await encode_residency(self._tiers, request)

    async def _data_set_rows(self, _: Document) -> Document:
        return self._jobs.data_set_resource.answer()

    async def _recordings_call(self, request: Document) -> Document:
        if self._jobs.kept_recordings is None:
            raise PeerUnavailable("recordings are kept by another worker")
        return await self._jobs.kept_recordings.local.answer(request)
