"""Orders and lists of warm-up jobs, as tests write them."""

from typing import Any

from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.state.warm_up_order import ListedSource, WarmUpOrder
from forebay.jobs.warm_up.warm_ups import WarmUps


def order_of(bucket: str, prefix: str | None = "", **bounds: Any) -> WarmUpOrder:
    """An order over one prefix; None: over a list alone."""
    sources = (ListedSource(bucket, prefix),) if prefix is not None else ()
    return WarmUpOrder(sources=sources, **bounds)


def keys_of(bucket: str, *keys: str) -> Inventory:
    inventory = Inventory()
    for key in keys:
        inventory.add(InventoryEntry(bucket, key))
    return inventory


async def start_job(
    jobs: WarmUps, bucket: str, prefix: str | None = None, keys: tuple[str, ...] = (), **bounds: Any
) -> WarmUpJob:
    """Starts a job over a prefix, or over keys."""
    return await jobs.start(order_of(bucket, prefix, **bounds), keys_of(bucket, *keys))
