"""Reads in an order: epochs over the data set by one access key, with plans that are sent, followed, left in the middle
or cancelled, and orders that recur, so that their recordings are recognised."""

import asyncio
import random
from collections.abc import Callable
from typing import Final, TypeVar

from forebay_client import Client
from forebay_client.client_errors import ClientError
from forebay_client.objects import BatchItem
from soak.data_bucket import DATA, EPOCH_KEYS
from soak.library_calls import PAUSE, library_client
from soak.write_history import WriteHistory

T = TypeVar("T")
_ORDERS: Final = 2
"""Orders that recur."""


class OrderedReads:
    """See the module."""

    def __init__(self, endpoint: str, socket: str, history: WriteHistory, rng: random.Random) -> None:
        self._history, self._rng = history, rng
        self._client = library_client(endpoint, socket)
        self._series = 0

    async def act(self) -> None:
        """One epoch, or a part of one."""
        keys = list(EPOCH_KEYS)
        random.Random(self._rng.randrange(_ORDERS)).shuffle(keys)
        roll = self._rng.random()
        if roll < 0.4:
            await self._read(keys)
            return
        self._series += 1
        plan = await self._call("plan", lambda: self._client.plan(DATA, f"soak/epoch-{self._series}", keys))
        if roll < 0.6:
            await self._read(keys)
        elif roll < 0.7:
            await self._read(keys[::-1])  # not as it was said
        elif roll < 0.8:
            await self._read(keys[: len(keys) // 3])
        if plan is not None and roll > 0.7:
            await self._call("progress", plan.progress)
            await self._call("cancel", plan.cancel)

    async def close(self) -> None:
        await asyncio.to_thread(self._client.close)

    async def _read(self, keys: list[str]) -> None:
        for at in range(0, len(keys), 8):
            group = keys[at : at + 8]
            since = {key: self._history.since(key) for key in group}
            for item in await asyncio.to_thread(_items, self._client, group):
                if item.data is not None:
                    self._history.verify_body(item.key, since[item.key], item.data, "read in an order")
                else:
                    assert isinstance(item.error, ClientError), item
                    await self._verify_failed(item.error)

    async def _call(self, what: str, call: Callable[[], T]) -> T | None:
        try:
            result = await asyncio.to_thread(call)
        except ClientError as failed:
            await self._verify_failed(failed)
            return None
        self._history.done[what] += 1
        return result

    async def _verify_failed(self, failed: ClientError) -> None:
        await asyncio.sleep(PAUSE)
        assert failed.status in {None, 404, 500, 502, 503, 504}, failed
        self._history.done[f"in an order: {failed.status}"] += 1


def _items(client: Client, keys: list[str]) -> list[BatchItem]:
    return list(client.get_many(DATA, keys))
