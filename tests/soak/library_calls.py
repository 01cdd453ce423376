"""Calls of the client library, in threads: by the Unix socket and by HTTP alone, with views that are kept for a while
and compared again, and writes to keys of its own."""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

from forebay_client import Client
from forebay_client.client_errors import ClientError, ObjectNotFound, RangeNotSatisfiable
from forebay_client.objects import BatchItem, BatchKey
from harness.rig import TRAINER
from soak.cell_content import CELL
from soak.data_bucket import DATA, data_keys, written_keys
from soak.data_writer import SIZES
from soak.write_history import WriteHistory

T = TypeVar("T")
_TIMEOUT: Final = 6.0
"""Seconds. A server that was silent for longer is not asked for as long: that of a worker which is stopped."""
PAUSE: Final = 0.05
"""Seconds after a failure: the library does not wait for a server that it has given up."""
_VIEWS_KEPT: Final = 24


class KeptView(NamedTuple):
    """A view that the library returned, and what it held then."""

    view: memoryview
    held: bytes
    key: str


def library_client(endpoint: str, socket: str) -> Client:
    """`socket`: empty for HTTP alone."""
    return Client(
        endpoint,
        access_key=TRAINER.access,
        secret_key=TRAINER.secret,
        region=TRAINER.region,
        socket=socket,
        timeout=_TIMEOUT,
        retries=1,
    )


class LibraryCalls:
    """See the module. `number`: of the writer whose keys are this client's."""

    def __init__(
        self, endpoints: Sequence[str], socket: str, history: WriteHistory, number: int, rng: random.Random
    ) -> None:
        self._history, self._rng = history, rng
        self._clients = [
            library_client(rng.choice(endpoints), socket),
            library_client(rng.choice(endpoints), socket),
            *(library_client(endpoint, "") for endpoint in endpoints),
        ]
        self._own = written_keys(number)
        self._keys = data_keys()
        self._views: deque[KeptView] = deque()

    async def act(self) -> None:
        roll = self._rng.random()
        client = self._rng.choice(self._clients)
        key = self._rng.choice(self._keys)
        if roll < 0.3:
            await self._get(client, key)
        elif roll < 0.5:
            await self._get_range(client, key)
        elif roll < 0.6:
            await self._get_into(client, key)
        elif roll < 0.85:
            await self._get_many(client)
        elif roll < 0.95:
            await self._put(client, self._rng.choice(self._own))
        else:
            await self._delete(client, self._rng.choice(self._own))
        self._compare_views()

    async def close(self) -> None:
        """Gives the views and the connections back."""
        self._views.clear()
        for client in self._clients:
            for reason, count in client.stats.fallbacks.items():
                self._history.done[f"the library fell back: {reason}"] += count
            await asyncio.to_thread(client.close)

    async def _get(self, client: Client, key: str) -> None:
        since = self._history.since(key)
        try:
            view = await asyncio.to_thread(client.get, DATA, key)
        except ObjectNotFound:
            self._history.verify_absent(key, since, "get")
        except ClientError as failed:
            await self._record_failure("get", failed)
        else:
            self._history.verify_body(key, since, view, "read by the library")
            self._keep(key, view)

    async def _get_range(self, client: Client, key: str) -> None:
        start = self._rng.randrange(0, 4096) * CELL
        end = start + self._rng.randrange(1, 4096) * CELL
        since = self._history.since(key)
        try:
            view = await asyncio.to_thread(client.get_range, DATA, key, start, end)
        except ObjectNotFound:
            self._history.verify_absent(key, since, "get_range")
        except RangeNotSatisfiable:
            self._history.verify_range_refused(key, since, start, "get_range")
        except ClientError as failed:
            await self._record_failure("get_range", failed)
        else:
            self._history.verify_body(key, since, view, "a range read by the library", start, end)
            self._keep(key, view)

    async def _get_into(self, client: Client, key: str) -> None:
        buffer = bytearray(self._rng.randrange(1, 8192) * CELL)
        since = self._history.since(key)
        try:
            count = await asyncio.to_thread(client.get_into, DATA, key, buffer)
        except ObjectNotFound:
            self._history.verify_absent(key, since, "get_into")
        except ClientError as failed:
            await self._record_failure("get_into", failed)
        else:
            self._history.verify_body(key, since, bytes(buffer[:count]), "read into a buffer", 0, len(buffer))

    async def _get_many(self, client: Client) -> None:
        keys = [BatchKey(key) for key in self._rng.choices(self._keys, k=self._rng.randrange(1, 64))]
        keys = [key._replace(start=CELL, end=CELL * 99) if self._rng.random() < 0.2 else key for key in keys]
        since = [self._history.since(key.key) for key in keys]
        is_ordered = self._rng.random() < 0.5

        def read() -> list[BatchItem]:
            return list(client.get_many(DATA, keys, ordered=is_ordered))

        items = await asyncio.to_thread(read)
        assert sorted(item.index for item in items) == [*range(len(keys))], "an item twice, or none"
        for item in items:
            asked, began = keys[item.index], since[item.index]
            assert item.key == asked.key, item
            if item.data is not None:
                self._history.verify_body(item.key, began, item.data, "read by get_many", asked.start, asked.end)
                self._keep(item.key, item.data)
            elif isinstance(item.error, ObjectNotFound):
                self._history.verify_absent(item.key, began, "get_many")
            elif isinstance(item.error, RangeNotSatisfiable):
                self._history.verify_range_refused(item.key, began, asked.start, "get_many")
            else:
                assert item.error is not None
                await self._record_failure("get_many", item.error)

    async def _put(self, client: Client, key: str) -> None:
        body, write = self._history.begin(key, self._rng.choice(SIZES))
        if await self._is_done("put", lambda: client.put(DATA, key, body)):
            self._history.acknowledge(key, write)

    async def _delete(self, client: Client, key: str) -> None:
        write = self._history.begin_deletion(key)
        if await self._is_done("delete", lambda: client.delete(DATA, key)):
            self._history.acknowledge(key, write)

    async def _is_done(self, what: str, call: Callable[[], object]) -> bool:
        try:
            await asyncio.to_thread(call)
        except ClientError as failed:
            await self._record_failure(what, failed)
            return False
        self._history.done[f"{what} by the library"] += 1
        return True

    async def _record_failure(self, what: str, failed: ClientError) -> None:
        await asyncio.sleep(PAUSE)
        assert failed.status in {None, 500, 502, 503, 504}, failed
        self._history.done[f"{what} by the library: {type(failed).__name__}"] += 1

    # Views

    def _keep(self, key: str, view: memoryview) -> None:
        if self._rng.random() < 0.2:
            self._views.append(KeptView(view, bytes(view), key))

    def _compare_views(self) -> None:
        """The oldest is compared with what it held, and given back."""
        while len(self._views) > _VIEWS_KEPT:
            kept = self._views.popleft()
            assert kept.view == kept.held, f"a view of {kept.key} has changed"
            self._history.done["views compared later"] += 1
