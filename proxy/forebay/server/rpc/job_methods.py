"""The RPC methods of jobs: the owner of an object fetches it ahead of reads, and the plans of the node come together in
one worker. The server side of jobs.warm_up.owner_warm_up, jobs.prefetch.node_prefetcher and jobs.plans.node_plans.
"""

from collections.abc import Callable
from dataclasses import asdict

from forebay.jobs.plans.node_plans import NodePlans
from forebay.jobs.prefetch.node_prefetcher import decode_prefetch, finish_ahead
from forebay.jobs.prefetch.prefetcher import Prefetcher
from forebay.jobs.warm_up.cache_residency import encode_residency
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.jobs.warm_up.owner_warm_up import answer_owner_call
from forebay.peers.frames import Document
from forebay.peers.peer_codec import decode
from forebay.request.admission import GatewayPolicy
from forebay.server.rpc.rpc_methods import OpenWrites, ResponseWriter, RpcMethods, origin_identity
from forebay.storage.tiers import Tiers


class JobMethods:
    """Works for the jobs of other workers. `policy` returns the one in force."""

    def __init__(
        self,
        warmer: ObjectWarmer,
        prefetcher: Prefetcher,
        plans: NodePlans,
        tiers: Tiers,
        policy: Callable[[], GatewayPolicy],
    ) -> None:
        self._warmer = warmer
        self._prefetcher = prefetcher
        self._plans = plans
        self._tiers = tiers
        self._policy = policy
        self.methods = RpcMethods(
            streaming={"warm": self._warm},
            ordered={"finish_ahead": self._finish_ahead, "drop_ahead": self._drop_ahead},
            unary={
                "residency": self._residency,
                "fetch_ahead": self._fetch_ahead,
                "plan_added": self._add_plan,
                "plan_list": self._list_plans,
                "plan_cancelled": self._cancel_plan,
                "plan_removed": self._remove_plan,
            },
        )

    async def _warm(self, request: Document, out: ResponseWriter) -> None:
        await answer_owner_call(request, self._warmer, out)

    def _finish_ahead(self, request: Document, _: OpenWrites) -> None:
        finish_ahead(self._prefetcher, request)

    def _drop_ahead(self, _: Document, __: OpenWrites) -> None:
        self._prefetcher.drop_all()

    async def _residency(self, request: Document) -> Document:
        return await encode_residency(self._tiers, request)

    async def _fetch_ahead(self, request: Document) -> Document:
        outcome = await self._prefetcher.fetch(decode_prefetch(request, origin_identity(self._policy(), request)))
        return {"outcome": outcome}

    async def _add_plan(self, request: Document) -> Document:
        await self._plans.add(decode(lambda: str(request["plan"])))
        return {}

    async def _list_plans(self, _: Document) -> Document:
        return {"plans": [asdict(each) for each in await self._plans.plans()]}

    async def _cancel_plan(self, request: Document) -> Document:
        await self._plans.cancel(decode(lambda: str(request["plan"])))
        return {}

    async def _remove_plan(self, request: Document) -> Document:
        await self._plans.remove(decode(lambda: str(request["plan"])))
        return {}
