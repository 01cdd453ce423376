"""SIGKILL at each write to the origin of a pack job, and of the DELETE of a member: the job goes on after the next
start, every member is read whole, and one whose DELETE was acknowledged stays deleted.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from harness.clients import RawClient, path_of
from harness.fake.actions import Action, Drop, HoldHead, HoldRequest
from harness.fake.gate import Gate
from harness.fake.s3_request import S3Request
from harness.fake_origin import FakeOrigin
from harness.fork_server import ForkedProcess, ForkServer, fork_server
from harness.journal_kills import first_of
from harness.pack_jobs import RULE
from harness.rig import TRAINER, configuration_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

OBJECTS: Final = {f"train/{number:02}": bytes([number]) * 100_000 for number in range(15)}
MEMBER: Final = "train/07"
PACK_WRITES: Final = 8
"""Of a job: two shards of an upload with a part each, and an index."""
DELETE_WRITES: Final = 2
"""The DELETE, and the tombstone."""
HOWS: Final = {"lost": 0, "late": 1, "done": 2}


class _Node:
    """A worker that is killed and started again, in front of an origin with objects to pack."""

    def __init__(self, origin: FakeOrigin, directory: Path, server: ForkServer) -> None:
        self.origin, self._server = origin, server
        self._order = {"file": str(directory / "forebay.toml"), "calls": os.devnull, "name": None, "nth": None}
        self._process: ForkedProcess | None = None
        self.client = RawClient("http://127.0.0.1:1", TRAINER)
        self._admin = ""
        self._is_ordered = False
        """Whether a pack job was acknowledged."""

    @property
    def process(self) -> ForkedProcess:
        assert self._process is not None
        return self._process

    async def start(self) -> None:
        process = self._process = await self._server.fork({**self._order, "error": None})
        self.client = RawClient(f"http://127.0.0.1:{await process.port()}", TRAINER)
        self._admin = f"http://127.0.0.1:{process.admin_port}"

    async def restart(self) -> None:
        self.process.kill()
        await self.process.wait_exit()
        await self.start()

    @asynccontextmanager
    async def killed_at(self, nth: int, how: str) -> AsyncIterator[Gate]:
        """Within: the worker is killed at its n-th write to the origin, which is lost, carried out afterwards, or was
        before. Yields what opens once it was."""
        gate, killed = Gate(), Gate()
        actions: dict[str, tuple[Action, ...]] = {
            "lost": (HoldRequest(gate), Drop()),
            "late": (HoldRequest(gate),),
            "done": (HoldHead(gate),),
        }

        def is_write(request: S3Request) -> bool:
            return request.method in {"PUT", "POST", "DELETE"}

        async def kill() -> None:
            await gate.reached()
            self.process.kill()
            await self.process.wait_exit()
            killed.open()
            gate.open()

        rule = self.origin.faults.add(*actions[how], where=is_write, skip=nth, times=1)
        async with asyncio.TaskGroup() as group:
            killing = group.create_task(kill())
            try:
                yield killed
            finally:
                killing.cancel()
                self.origin.faults.remove(rule)
                gate.open()

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        async with aiohttp.ClientSession() as session, session.request(method, self._admin + path, json=body) as answer:
            return await answer.json()

    async def pack(self) -> None:
        """Has a pack made, unless that was ordered before, and waits until it is done."""
        if not self._is_ordered:
            order = {"bucket": "bucket", "prefix": "train/", "shard_size": "1MiB"}
            await self.ask("POST", "/v1/packs", order)
            self._is_ordered = True
        jobs: list[Any] = []
        while not jobs or any(job["state"] in {"running", "queued"} for job in jobs):
            jobs = (await self.ask("GET", "/v1/jobs"))["jobs"]
        assert [(job["state"], job["done"], job["failed"]) for job in jobs] == [("done", len(OBJECTS), 0)], jobs

    async def read(self, key: str) -> bytes | None:
        answer = await self.client.request("GET", path_of("bucket", key))
        assert answer.status in {200, 404}, answer
        return answer.body if answer.status == 200 else None


@asynccontextmanager
async def _node(directory: Path, write: str = "through") -> AsyncIterator[_Node]:
    async with FakeOrigin(smallest_part=1) as origin, fork_server(directory / "log") as server:
        for key, content in OBJECTS.items():
            origin.store.put("bucket", key, content)
        file = directory / "forebay.toml"
        journal = f'[journal]\npath = "{directory / "journal"}"\nsize = "16MiB"\n' if write == "back" else ""
        rest = f'{journal}{RULE}write = "{write}"\n'
        text = configuration_of(origin.endpoint, origin.secret, directory, ssd="64MiB", rest=rest)
        await asyncio.to_thread(file.write_text, text)
        await asyncio.to_thread(file.chmod, 0o600)
        node = _Node(origin, directory, server)
        await node.start()
        yield node
        node.process.kill()
        await node.process.wait_exit()
    log = await asyncio.to_thread((directory / "log").read_text)
    assert "Traceback" not in log, log


async def _pack_killed(directory: Path, nth: int, how: str) -> bool:
    """Whether the job has so many writes."""
    async with _node(directory) as node:
        async with node.killed_at(nth, how) as killed:
            await first_of(_until_it_fails(node.pack()), killed.wait_open())
        was_killed = not node.process.is_alive
        await node.restart()
        await node.pack()
        for key in OBJECTS:
            node.origin.store.delete("bucket", key)
        await node.restart()
        for key, content in OBJECTS.items():
            assert await node.read(key) == content, (key, nth, how)
        return was_killed


async def _until_it_fails(work: Any) -> None:
    try:
        await work
    except (aiohttp.ClientError, OSError):
        await asyncio.Event().wait()  # its worker is being killed


@pytest.mark.parametrize("how", HOWS)
async def test_a_pack_job_goes_on_after_a_kill_at_each_write(tmp_path: Path, how: str) -> None:
    reached = []
    for nth in range(HOWS[how] % 2, PACK_WRITES, 2):
        directory = tmp_path / str(nth)
        directory.mkdir()
        reached.append(await _pack_killed(directory, nth, how))
    assert sum(reached) >= 3, reached


@pytest.mark.parametrize("write", ["through", "back"])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("is_there", [False, True], ids=["packed alone", "object there"])
async def test_a_member_stays_deleted_after_kills(tmp_path: Path, how: str, is_there: bool, write: str) -> None:
    async with _node(tmp_path, write) as node:
        await node.pack()
        if not is_there:
            for key in OBJECTS:
                node.origin.store.delete("bucket", key)
        for nth in range(DELETE_WRITES):
            await node.restart()
            assert await node.read("train/00") == OBJECTS["train/00"]
            async with node.killed_at(nth, how):
                try:
                    answer = await node.client.request("DELETE", path_of("bucket", MEMBER))
                    is_acknowledged = answer.status == 204 and not answer.aborted
                except OSError:
                    is_acknowledged = False
            await node.restart()
            found = await node.read(MEMBER)
            assert found in ({None} if is_acknowledged else {None, OBJECTS[MEMBER]})
        assert (await node.client.request("DELETE", path_of("bucket", MEMBER))).status == 204
        assert await node.read(MEMBER) is None
        await node.restart()
        assert await node.read(MEMBER) is None
        for key, content in OBJECTS.items():
            assert await node.read(key) == (None if key == MEMBER else content), key
