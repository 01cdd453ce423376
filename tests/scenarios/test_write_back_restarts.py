"""Workers are killed and ended while they take the drain over, then their node: all arrives, in order, once."""

import asyncio
import os
import signal
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
from harness.process_table import workers_of
from harness.rig import TRAINER, configuration_of
from harness.write_back_rig import JOURNAL, RULE

WORKERS = 3
CLIENTS = 4
PENDING = 150
"""Writes that are pending when the drainer is killed: a take-over of several steps."""


class _Writers:
    """Clients that write on, whatever becomes of the workers, until they are stopped. A key is written by several."""

    def __init__(self, endpoint: str, seed: int) -> None:
        self.acknowledged: list[AcknowledgedWrite] = []
        self.sent: list[Effect] = []
        self.is_stopped = False
        self._endpoint = endpoint
        self._random = Random(seed)
        self._progress = asyncio.Condition()

    async def run(self) -> None:
        await asyncio.gather(*(self._client() for _ in range(CLIENTS)))

    async def _client(self) -> None:
        client = RawClient(self._endpoint, TRAINER)
        while not self.is_stopped:
            effect: Effect = (f"a/{self._random.randrange(40)}", b"%d" % len(self.sent))
            began = time.monotonic()
            self.sent.append(effect)
            try:
                answer = await client.request("PUT", path_of("ckpt", effect[0]), (), effect[1] or b"")
            except (OSError, EOFError):
                continue
            if answer.status == 200:
                self.acknowledged.append(AcknowledgedWrite(effect, began, time.monotonic()))
            async with self._progress:
                self._progress.notify_all()

    async def wait_more(self, count: int) -> None:
        """Waits until so many more are acknowledged."""
        until = len(self.acknowledged) + count
        async with self._progress:
            await self._progress.wait_for(lambda: len(self.acknowledged) >= until)


@asynccontextmanager
async def _serving(origin: FakeOrigin, directory: Path, *, is_proven: bool = True) -> AsyncIterator[ForebayProcess]:
    rest = JOURNAL.format(path=directory / "journal", size="256MiB") + RULE
    text = configuration_of(origin.endpoint, origin.secret, directory, server=f"workers = {WORKERS}\n", rest=rest)
    file = directory / "forebay.toml"
    await asyncio.to_thread(file.write_text, text.replace('drain_timeout = "5s"', 'drain_timeout = "200ms"'))
    await asyncio.to_thread(file.chmod, 0o600)
    async with forebay_process("serve", "--config", str(file), directory=directory) as process:
        await process.wait_for_output("metrics and control on")
        for _ in range(8 * WORKERS if is_proven else 0):  # each worker needs a proof of its own; chance chooses it
            await _write_through(process)
        yield process


async def _write_through(process: ForebayProcess) -> None:
    """Has a write reach the origin behind all that is pending."""
    headers, status = (("x-forebay-durability", "origin"),), 503
    while status == 503:
        client = RawClient(process.endpoint, TRAINER)
        status = (await client.request("PUT", path_of("ckpt", "a/proof"), headers, b"proof")).status
    assert status == 200


async def _drainer(process: ForebayProcess, journal: Path, after: int = 0) -> int:
    """The worker that has the journal's lock, once it is another one than `after`."""
    async with asyncio.timeout(60):
        while (pid := _holder_of(journal / "drain.lock")) == after or pid not in workers_of(process.pid):  # noqa: ASYNC110 # the kernel tells nobody who has a lock
            await asyncio.sleep(0.002)
    return pid


def _holder_of(lock: Path) -> int:
    """The process that has locked a file; 0: none."""
    found = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    end = f":{lock.stat().st_ino}"
    return next((int(words[4]) for words in found if words[1] == "FLOCK" and words[5].endswith(end)), 0)


@pytest.mark.parametrize("is_listening", [True, False])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 12))])
async def test_kills_and_ends_in_takeovers_lose_nothing(tmp_path: Path, seed: int, *, is_listening: bool) -> None:
    store, random = RecordingStore(), Random(seed)
    async with FakeOrigin() as origin:
        origin.store = store
        store.create_bucket("ckpt")
        async with _serving(origin, tmp_path) as process:
            writers = _Writers(process.endpoint, seed)
            await origin.refuse()  # a request that is under way at a kill may be carried out later: see durability.md
            origin.disconnect(idle_only=False)
            writing = TaskRegistry().spawn(writers.run(), "write")
            await writers.wait_more(PENDING)
            first = await _drainer(process, tmp_path / "journal")
            os.kill(first, signal.SIGKILL)
            second = await _drainer(process, tmp_path / "journal", after=first)
            # A worker without a proof has its writes wait for the origin and what is pending, 200 s at the most.
            if is_listening:
                await origin.listen()
                await writers.wait_more(random.randrange(5))
            os.kill(second, signal.SIGTERM)
            third = await _drainer(process, tmp_path / "journal", after=second)
            if is_listening:
                await writers.wait_more(random.randrange(40))
            os.kill(third, random.choice((signal.SIGKILL, signal.SIGTERM)))
            process.signal(signal.SIGTERM)
            await process.wait_exit()
            writers.is_stopped = True
            await writing
            assert "Traceback" not in process.output
        await origin.refuse()
        await origin.listen()
        async with _serving(origin, tmp_path, is_proven=False) as process:
            await _write_through(process)
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
    history = [effect for effect in store.history if effect[0] != "a/proof"]
    check_history(writers.acknowledged, history, writers.sent)
    assert len(writers.acknowledged) > PENDING
    assert len(history) == len(set(history)), "a write was carried out twice"
