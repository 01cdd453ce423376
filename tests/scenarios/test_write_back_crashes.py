"""SIGKILL at random moments: every acknowledged write is at the origin in the end, whole and in order."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.forebay_process import ForebayProcess, forebay_process
from harness.origin_history import AcknowledgedWrite, Effect, RecordingStore, check_history
from harness.rig import TRAINER, configuration_of

RULES = '[journal]\npath = "{path}"\nsize = "256MiB"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'
KEYS = [f"a/{nth}" for nth in range(6)]
CLIENTS = 4


class _Writers:
    """Clients that write until they are stopped."""

    def __init__(self, seed: int) -> None:
        self.acknowledged: list[AcknowledgedWrite] = []
        self.unacknowledged: list[Effect] = []
        self.local = 0
        """Of them, acknowledged from the journal."""
        self._numbers = itertools.count()
        self._random = Random(seed)
        self._progress = asyncio.Condition()

    async def run(self, endpoint: str, most: int) -> None:
        """Writes until so many writes more were acknowledged, or the server has gone."""
        until = len(self.acknowledged) + most
        await asyncio.gather(*(self._client(endpoint, until) for _ in range(CLIENTS)))

    async def _client(self, endpoint: str, until: int) -> None:
        client = RawClient(endpoint, TRAINER)
        while len(self.acknowledged) < until:
            number, size = next(self._numbers), self._random.choice((0, 100, 5000, 400_000))
            effect: Effect = (self._random.choice(KEYS), b"%d " % number + bytes(size))
            began = time.monotonic()
            self.unacknowledged.append(effect)
            try:
                answer = await client.request("PUT", path_of("ckpt", effect[0]), (), effect[1] or b"")
            except (OSError, EOFError):
                return
            if answer.status != 200:
                return
            self.local += answer.headers.get("x-forebay-durable") == "local"
            self.acknowledged.append(AcknowledgedWrite(effect, began, time.monotonic()))
            async with self._progress:
                self._progress.notify_all()

    async def wait_for(self, count: int) -> None:
        """Waits until so many writes are acknowledged."""
        async with self._progress:
            await self._progress.wait_for(lambda: len(self.acknowledged) >= count)


async def _write_through(endpoint: str, body: bytes = b"") -> None:
    """Has a write go through. It comes after all that is pending, so it may have to come again."""
    headers, status = (("x-forebay-durability", "origin"),), 503
    while status == 503:
        answer = await RawClient(endpoint, TRAINER).request("PUT", path_of("ckpt", "a/proof"), headers, body)
        status = answer.status
    assert (status, answer.headers["x-forebay-durable"]) == (200, "origin")


@asynccontextmanager
async def _serving(origin: FakeOrigin, directory: Path, workers: int) -> AsyncIterator[tuple[ForebayProcess, str]]:
    rules = RULES.format(path=directory / "journal")
    server = f"workers = {workers}\n"
    text = configuration_of(origin.endpoint, origin.secret, directory, server=server, rest=rules)
    file = directory / "forebay.toml"
    await asyncio.to_thread(file.write_text, text)
    await asyncio.to_thread(file.chmod, 0o600)
    async with forebay_process("serve", "--config", str(file), directory=directory) as process:
        await process.wait_for_output("metrics and control on")
        endpoint = process.endpoint
        for _ in range(2 * workers):  # each worker needs a proof of its own
            await _write_through(endpoint)
        yield process, endpoint


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("seed", range(2))
async def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path, workers: int, seed: int) -> None:
    random, writers, store = Random(seed), _Writers(seed), RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        store.create_bucket("ckpt")
        for _ in range(3):
            async with _serving(origin, tmp_path, workers) as (process, endpoint):
                enough = len(writers.acknowledged) + random.randrange(5, 60)
                writing = TaskRegistry().spawn(writers.run(endpoint, 1000), "write")
                await writers.wait_for(enough)
                await process.kill()
                await writing
        async with _serving(origin, tmp_path, workers) as (process, endpoint):
            await writers.run(endpoint, 10)
            await _write_through(endpoint, b"last")
    assert writers.local > len(writers.acknowledged) // 2
    history = [effect for effect in store.history if effect[0] != "a/proof"]
    check_history(writers.acknowledged, history, writers.unacknowledged)
