"""The admin port's verbs about plans, over one worker: the plans of the node, wherever they run."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from typing import Final

from forebay.core.errors import S3Error, Throttled
from forebay.core.names import RESERVED_PREFIX
from forebay.core.plan_progress import PlanList, PlanProgress
from forebay.jobs.plans.node_plans import NodePlans
from forebay.jobs.plans.plan_entries import PlanEntries
from forebay.jobs.plans.plan_files import plan_id
from forebay.jobs.plans.plan_resource import KEY_LISTS
from forebay.jobs.state.inventory import PAGE_OBJECTS, Inventory, InventoryEntry
from forebay.policy.grants import Principal
from forebay.request.authentication import Keyring
from forebay.request.resource import ResourceOwner, ResourceWriter
from forebay.server.admin.control import PlanVerbs
from forebay.server.admin.schema.plan_schema import PlanOrder, PlanSent
from forebay.server.admin.schema.warm_order import parse_object_url

_RESOURCE: Final = f"{RESERVED_PREFIX}plans/"


class WorkerPlans(PlanVerbs):
    """Answers the admin port. A plan that an operator sends is that of an access key: it is matched by this key's
    reads, and has what this key may read."""

    def __init__(self, plans: NodePlans, resource: ResourceWriter, keyring: Callable[[], Keyring]) -> None:
        """`resource`: the plans of the data port."""
        self._plans = plans
        self._resource = resource
        self._keyring = keyring

    async def plans(self) -> PlanList:
        """The plans of the node."""
        return PlanList(tuple(await self._plans.plans()))

    async def plan(self, plan_id: str) -> PlanProgress | None:
        """The plan of this id, of all known."""
        return next((each for each in await self._plans.plans() if each.id == plan_id), None)

    async def cancel_plan(self, plan_id: str) -> PlanProgress | None:
        """Ends a plan in the worker that runs it."""
        await self._plans.cancel(plan_id)
        return await self.plan(plan_id)

    async def inventory(self, text: str) -> Inventory | None:
        """The entries of a plan in their order; None: none runs or waits. `text`: its id, or its location; of several
        keys' plans the one that was sent last is meant."""
        for plan in await self.named(text):
            loaded = await self._plans.store.load(plan.id)
            if loaded is not None:
                return await _inventory(plan.bucket, loaded[1])
        return None

    async def named(self, text: str) -> list[PlanProgress]:
        """All known plans of this id, or of this location, the one that was sent last first."""
        url = parse_object_url(text)
        plans = [
            each
            for each in await self._plans.plans()
            if each.id == text
            or (url is not None and (each.bucket, each.name) == (url.bucket, url.path.removeprefix(_RESOURCE)))
        ]
        return sorted(plans, key=lambda each: -each.sent_at)

    async def send_plan(self, order: PlanOrder) -> PlanSent:
        """Runs a plan. Raises Throttled where there is no slot or no room for it."""
        keyring = self._keyring()
        principal = _principal(keyring, order.key)
        if principal is None:
            known = ", ".join(sorted(keyring.principals))
            return PlanSent(None, f"Name the access key that will read it: {known}.")
        if not order.name or order.name.startswith(KEY_LISTS):
            return PlanSent(None, f"The name of a plan is not empty, and does not begin with {KEY_LISTS}.")
        identity = keyring.origin_identities.get(principal.id)
        try:
            await self._resource.write(
                ResourceOwner(order.bucket, principal, identity), order.name, _pieces(b64decode(order.content))
            )
        except S3Error as refused:
            if refused.status >= 500:  # no slot, or no room on the disk: the plan itself is good
                raise Throttled(refused.message) from refused
            return PlanSent(None, refused.message)
        return PlanSent(await self.plan(plan_id(order.bucket, principal.id, order.name)))


async def _inventory(bucket: str, entries: PlanEntries) -> Inventory:
    inventory = Inventory()
    try:
        for start in range(0, entries.count, PAGE_OBJECTS):
            for key, first, stop in await asyncio.to_thread(entries.read, start, start + PAGE_OBJECTS):
                inventory.add(InventoryEntry(bucket, key, None, first, stop))
    finally:
        entries.close()
    return inventory


def _principal(keyring: Keyring, name: str) -> Principal | None:
    """Returns the principal of the access key `name`; of the only key if `name` is empty."""
    if name:
        return keyring.principal(name)
    if keyring.open_principal is not None:
        return keyring.open_principal
    return next(iter(keyring.principals.values())) if len(keyring.principals) == 1 else None


async def _pieces(content: bytes) -> AsyncIterator[bytes]:
    yield content
