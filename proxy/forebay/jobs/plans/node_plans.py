"""The plans of the node, from any of its workers: sent to the store, and to the coordinator in worker 0.

No plan is lost while the coordinator is down: when it is back, it takes up the plans in the store. Until then calls
about plans wait.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from forebay.core.errors import PeerUnavailable, Throttled
from forebay.core.plan_progress import PlanProgress
from forebay.jobs.plans.plan_coordinator import PlanCoordinator
from forebay.jobs.plans.plan_store import PlanStore
from forebay.peers.frames import Document
from forebay.peers.node_reads import COLLECTOR
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode

ADD: Final = "plan_added"
LIST: Final = "plan_list"
CANCEL: Final = "plan_cancelled"
REMOVE: Final = "plan_removed"


class NodePlans:
    """See the module. `coordinator`: this worker's, which runs plans only in worker 0."""

    def __init__(self, store: PlanStore, coordinator: PlanCoordinator, peers: Peers) -> None:
        self.store = store
        self.coordinator = coordinator
        self._peers = peers

    @property
    def coordinates(self) -> bool:
        """Whether the plans run in this worker."""
        return self._peers.number == COLLECTOR

    async def add(self, plan: str) -> None:
        """Runs a plan that is in the store. Raises Throttled."""
        if self.coordinates:
            await self.coordinator.add(plan)
            return
        with suppress(PeerUnavailable):
            await self._call({"kind": ADD, "plan": plan})

    async def plans(self) -> Sequence[PlanProgress]:
        """All plans. Raises Throttled."""
        if self.coordinates:
            await self.coordinator.wait_started()
            return self.coordinator.plans()
        response = await self._call_or_throttle({"kind": LIST})
        return decode(lambda: [PlanProgress(**each) for each in response["plans"]])

    async def cancel(self, plan: str) -> None:
        """Ends a plan, if there is one. Raises Throttled."""
        if self.coordinates:
            await self.coordinator.wait_started()
            await self.coordinator.cancel(plan)
        else:
            await self._call_or_throttle({"kind": CANCEL, "plan": plan})

    async def remove(self, plan: str) -> None:
        """Ends a plan, if there is one, which its owner sees no longer. Raises Throttled."""
        if self.coordinates:
            await self.coordinator.wait_started()
            await self.coordinator.remove(plan)
        else:
            await self._call_or_throttle({"kind": REMOVE, "plan": plan})

    async def _call_or_throttle(self, request: Document) -> Document:
        try:
            return await self._call(request)
        except PeerUnavailable:
            raise Throttled("the worker that runs plans is not there") from None

    async def _call(self, request: Document) -> Document:
        return await self._peers.others[COLLECTOR].call(request)
