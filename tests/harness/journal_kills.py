"""A worker that is killed again and again, over one journal and one origin, under clients that write.

async with killed_worker(directory, seed) as killed:
    await killed.round(JournalPoint("after sync log", 2))
    await killed.check()
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, Final

from forebay.core.task_registry import TaskRegistry
from harness.fake.actions import Action, Drop, HoldHead, HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.fork_server import ForkedProcess, ForkServer, fork_server
from harness.journal_writers import JournalWriters, write_through
from harness.kill_points import JournalPoint, KillPoint, Moment, OriginPoint
from harness.origin_history import RecordingStore
from harness.rig import configuration_of

RULES: Final = '[journal]\npath = "{path}"\nsize = "{size}"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'
CLIENTS: Final = 2
NEVER: Final = JournalPoint(None, -1)


class KilledWorker:
    """See the module. `writes`: acknowledged from the journal before a point that is not reached is given up."""

    def __init__(
        self, origin: FakeOrigin, writers: JournalWriters, server: ForkServer, configuration: Path, writes: int
    ) -> None:
        self.origin = origin
        self.writers = writers
        self.reached: list[KillPoint] = []
        """The points at which it was killed."""
        self._server = server
        self._configuration = configuration
        self._writes = writes

    async def round(self, point: KillPoint) -> bool:
        """Writes through a new worker until it is killed, at this point or after `writes`. Returns whether the point
        was reached."""
        async with AsyncExitStack() as stack:
            process = await self._start(point)
            match point:
                case OriginPoint():
                    await stack.enter_async_context(self._killed_at_origin(point, process))
                case Moment():
                    await stack.enter_async_context(self._killed_at_moment(point, process))
            port = await process.port()
            if port is not None:
                await self.use(process, f"http://127.0.0.1:{port}", point)
            reached = not process.is_alive
            process.kill()
            await process.wait_exit()
        if reached:
            self.reached.append(point)
        return reached

    async def drain(self) -> None:
        """Has all that is pending carried out, unfinished uploads aborted, and kills the worker then."""
        process = await self._start(NEVER)
        endpoint = f"http://127.0.0.1:{await process.port()}"
        await self.writers.abort_unfinished(endpoint)
        await write_through(endpoint)
        process.kill()
        await process.wait_exit()

    async def check(self) -> None:
        """Every acknowledged write is at the origin in the end, whole, in an order that its clients could have seen."""
        process = await self._start(NEVER)
        await self.writers.check(f"http://127.0.0.1:{await process.port()}")

    async def _start(self, point: KillPoint) -> ForkedProcess:
        at = point if isinstance(point, JournalPoint) else NEVER
        order = {"file": str(self._configuration), "name": at.name, "nth": at.nth, "is_serving": at.is_serving}
        return await self._server.fork(order)

    async def use(self, process: ForkedProcess, endpoint: str, point: KillPoint) -> None:
        """Writes until the worker is killed, or has acknowledged what it was to."""
        await self.writers.use([endpoint])
        tasks = TaskRegistry()
        writing = tasks.spawn(self.writers.run(CLIENTS), "write")
        await first_of(process.wait_exit(), self.writers.wait_for_local(self.writers.local + self._writes))
        if process.is_alive and isinstance(point, OriginPoint):
            await first_of(process.wait_exit(), write_through(endpoint))  # the origin has had every step by then
        await self.writers.stop()
        await writing

    @asynccontextmanager
    async def _killed_at_moment(self, moment: Moment, process: ForkedProcess) -> AsyncIterator[None]:
        until = len(self.writers.acknowledged) + moment.writes

        async def kill() -> None:
            await self.writers.wait_for(until)
            await asyncio.sleep(moment.seconds)
            process.kill()

        async with _beside(kill()):
            yield

    @asynccontextmanager
    async def _killed_at_origin(self, point: OriginPoint, process: ForkedProcess) -> AsyncIterator[None]:
        operation, _, how = point.name.partition(" ")
        gate = Gate()
        actions: dict[str, tuple[Action, ...]] = {
            "lost": (HoldRequest(gate), Drop()),
            "late": (HoldRequest(gate),),
            "done": (HoldHead(gate),),
        }

        async def kill() -> None:
            await gate.reached()
            process.kill()
            await process.wait_exit()
            gate.open()

        rule = self.origin.faults.add(*actions[how], operation=operation, skip=point.nth, times=1)
        try:
            async with _beside(kill()):
                yield
        finally:
            self.origin.faults.remove(rule)


@asynccontextmanager
async def _beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Work that ends with the block."""
    task = TaskRegistry().spawn(work, "kill")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


async def first_of(*works: Coroutine[Any, Any, object]) -> None:
    """Returns once one of them has ended."""
    tasks = [TaskRegistry().spawn(work, "wait") for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def configure(origin: FakeOrigin, directory: Path, size: str = "256MiB") -> Path:
    """Writes the configuration of a worker with a journal of this size. Returns its file."""
    file = directory / "forebay.toml"
    rules = RULES.format(path=directory / "journal", size=size)
    text = configuration_of(origin.endpoint, origin.secret, directory, rest=rules)
    await asyncio.to_thread(file.write_text, text)
    await asyncio.to_thread(file.chmod, 0o600)
    return file


@asynccontextmanager
async def killed_worker(directory: Path, seed: int, writes: int = 12) -> AsyncIterator[KilledWorker]:
    """A journal, an origin, and a worker to be killed."""
    store = RecordingStore()
    async with FakeOrigin() as origin, fork_server(directory / "log") as server:
        origin.store = store
        store.create_bucket("ckpt")
        file = await configure(origin, directory)
        yield KilledWorker(origin, JournalWriters(store, Random(seed)), server, file, writes)
