"""The end of a process with pending writes: they have some time, new ones go through, and what is left is said."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from boto3.s3.transfer import TransferConfig

from forebay.core.task_registry import TaskRegistry
from harness.clients import RawClient, boto_client, path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.forebay_process import ForebayProcess, forebay_process
from harness.inspection import run_loop_until
from harness.oss_client import OssClient
from harness.process_table import workers_of
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER, configuration_of
from harness.worker_node import Node, request_admin
from harness.write_back_rig import JOURNAL, RULE, WriteBackRig, at_origin

PART = 5 << 20
FENCE = 'fence = ["**/latest*"]\n'


async def test_while_it_ends_pending_writes_arrive_and_new_ones_go_through(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", b"acknowledged")
        await gate.reached()
        ending = tasks.spawn(rig.write_back.watch.stop(60.0), "end")
        through = tasks.spawn(rig.client().request("PUT", path_of("ckpt", "a/new"), (), b"new"), "write")
        read = await rig.client().request("GET", path_of("ckpt", "a/pending"))
        assert (read.body, ending.done(), through.done()) == (b"acknowledged", False, False)
        gate.open()
        answer = await through
        assert (answer.status, answer.headers["x-forebay-durable"], await ending) == (200, "origin", 0)
        assert (at_origin(origin, "a/pending"), at_origin(origin, "a/new")) == (b"acknowledged", b"new")


async def test_the_end_does_not_wait_for_a_person(tmp_path: Path) -> None:
    """Neither for a stuck write, nor for what comes after it; for others it does."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, asyncio.timeout(30):
        await rig.prove()
        gate, tasks = Gate(), TaskRegistry()
        origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/stuck")
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/sent")
        await rig.put("a/sent", b"sent")
        await gate.reached()
        await rig.put("a/stuck", b"stuck")
        await rig.put("a/after", b"after")
        ending = tasks.spawn(rig.write_back.watch.stop(60.0), "end")
        gate.open()
        assert await ending == 2
        assert at_origin(origin, "a/sent") == b"sent"


async def test_while_it_ends_no_write_waits_for_an_origin_that_is_away(tmp_path: Path) -> None:
    """What is pending stays in the journal then, so what has to come after it is refused at once."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig, asyncio.timeout(60):
        await rig.prove()
        await origin.refuse()
        origin.disconnect(idle_only=False)
        await rig.put("a/pending", b"acknowledged")
        probe = rig.parts.origins.of("ckpt").probe
        while await probe():  # the first one may be that of the start
            pass
        await rig.worker.announce_shutdown()
        for method, target in (("PUT", "a/new"), ("DELETE", "a/pending"), ("GET", "a/pending?tagging")):
            answer = await rig.client().request(method, path_of("ckpt", target).replace("%3F", "?"))
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert b"<Code>SlowDown</Code><Message>Forebay is ending" in answer.body
        assert (await rig.client().request("GET", path_of("ckpt", "a/pending"))).body == b"acknowledged"
        await origin.listen()
        assert await probe()
        assert (await rig.client().request("PUT", path_of("ckpt", "a/new"), (), b"new")).status == 200
        assert (at_origin(origin, "a/pending"), at_origin(origin, "a/new")) == (b"acknowledged", b"new")


async def test_a_write_that_waits_already_is_refused_when_it_ends(tmp_path: Path) -> None:
    """It waits as long as the origin may be back; not once this process won't see that."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, FENCE) as rig, asyncio.timeout(60):
        await rig.prove()
        await origin.refuse()
        origin.disconnect(idle_only=False)
        await rig.put("a/pending", b"acknowledged")
        tasks, waiting = TaskRegistry(), dict[str, asyncio.Task[RawAnswer]]()
        for method, target in (("PUT", "a/latest"), ("GET", "a/pending?tagging")):
            path = path_of("ckpt", target).replace("%3F", "?")
            waiting[target] = tasks.spawn(rig.client().request(method, path), "request")
        await run_loop_until(lambda: rig.write_back.pending.waiting == len(waiting))
        probe = rig.parts.origins.of("ckpt").probe
        while await probe():  # the first one may be that of the start
            pass
        assert not any(each.done() for each in waiting.values())
        await rig.worker.announce_shutdown()
        for answer in [await each for each in waiting.values()]:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert b"<Code>SlowDown</Code><Message>Forebay is ending, and the origin" in answer.body


async def test_what_is_left_at_the_end_stays_and_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        await rig.put("a/pending", b"acknowledged")
        await gate.reached()
        assert await rig.write_back.watch.stop(0.0) == 1
        assert "left in the journal for the next start: 1 of the acknowledged writes" in caplog.text
        gate.open()
        await rig.restart()
        await rig.settled()
        assert at_origin(origin, "a/pending") == b"acknowledged"


async def test_a_part_that_comes_last_is_there_after_the_restart(tmp_path: Path) -> None:
    """While requests under way are finished nothing is begun at the origin for an upload: it goes on here."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        target, contents = path_of("ckpt", "a/file"), (b"1" * PART, b"2")
        upload = await OssClient(rig.endpoint, TRAINER).initiate(target)
        etags = []
        for number, content in enumerate(contents, 1):
            answer = await OssClient(rig.endpoint, TRAINER).part(target, upload, number, content)
            assert (answer.status, answer.headers["x-forebay-durable"]) == (200, "local")
            etags.append((number, answer.headers["ETag"]))
            assert await rig.write_back.watch.stop(0.0) == 0
        assert origin.store.bucket("ckpt").uploads == {}
        await rig.restart()
        completed = await OssClient(rig.endpoint, TRAINER).complete(target, upload, etags)
        assert (completed.status, completed.headers["x-forebay-durable"]) == (200, "local")
        await rig.settled()
        assert at_origin(origin, "a/file") == b"".join(contents)


@asynccontextmanager
async def _serving(
    origin: FakeOrigin, directory: Path, workers: int, seconds: str, server: str = "", rule: str = ""
) -> AsyncIterator[ForebayProcess]:
    """A process of so many workers, with a journal, and so long to end."""
    rest = JOURNAL.format(path=directory / "journal", size="256MiB") + RULE + rule
    server += f"workers = {workers}\n"
    text = configuration_of(origin.endpoint, origin.secret, directory, server=server, rest=rest)
    file = directory / "forebay.toml"
    await asyncio.to_thread(file.write_text, text.replace('drain_timeout = "5s"', f'drain_timeout = "{seconds}"'))
    await asyncio.to_thread(file.chmod, 0o600)
    async with forebay_process("serve", "--config", str(file), directory=directory) as process:
        await process.wait_for_output("metrics and control on")
        yield process


async def _put(process: ForebayProcess, key: str, durable: str = "local") -> None:
    """Writes an object, which is acknowledged from the journal, or by the origin."""
    answer = await RawClient(process.endpoint, TRAINER).request("PUT", path_of("ckpt", key), (), key.encode())
    assert (answer.status, answer.headers["x-forebay-durable"]) == (200, durable)


@pytest.mark.parametrize("workers", [1, 2])
async def test_sigterm_answers_the_writes_that_wait(tmp_path: Path, workers: int) -> None:
    """In every worker: its connections would be cut off at the end of its time."""
    async with FakeOrigin() as origin, asyncio.timeout(60):
        origin.store.create_bucket("ckpt")
        async with _serving(origin, tmp_path, workers, "1s", rule=FENCE) as process:
            gate, tasks = Gate(), TaskRegistry()
            origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
            await _put(process, "a/pending")
            await gate.reached()
            waiting = [
                tasks.spawn(
                    RawClient(process.endpoint, TRAINER).request("PUT", path_of("ckpt", f"a/latest-{n}")), "PUT"
                )
                for n in range(4 * workers)  # on a connection of its own each, so in any worker
            ]
            await process.wait_for_output("the write goes through: a fence", times=len(waiting))
            process.signal(signal.SIGTERM)
            for answer in [await each for each in waiting]:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
                assert b"<Code>SlowDown</Code><Message>Forebay is ending. Please try again." in answer.body
            gate.open()
            assert await process.wait_exit() == 0


@pytest.mark.parametrize("workers", [1, 2])
async def test_after_sigterm_new_writes_go_through_at_once(tmp_path: Path, workers: int) -> None:
    """For as long as server.shutdown_delay, in every worker, and uploads that were begun here go on at the origin."""
    async with FakeOrigin() as origin:
        origin.store.create_bucket("ckpt")
        async with _serving(origin, tmp_path, workers, "60s", 'shutdown_delay = "1h"\n') as process:
            await _put(process, "a/before")
            oss, targets = OssClient(process.endpoint, TRAINER), [path_of("ckpt", key) for key in ("a/one", "a/two")]
            uploads = [await oss.initiate(target) for target in targets]
            parts = [
                [(await oss.part(*each, 1, b"1" * PART)).headers["ETag"]] for each in zip(targets, uploads, strict=True)
            ]
            process.signal(signal.SIGTERM)
            await process.wait_for_output("ending: not ready any more")
            for number in range(4 * workers):  # on a connection of its own each, so by any worker
                await _put(process, f"a/after-{number}", "origin")
            parts[1].append((await oss.part(targets[1], uploads[1], 2, b"2")).headers["ETag"])
            for target, upload, etags in zip(targets, uploads, parts, strict=True):
                completed = await oss.complete(target, upload, list(enumerate(etags, 1)))
                assert (completed.status, completed.headers["x-forebay-durable"]) == (200, "origin")
            assert at_origin(origin, "a/one") == b"1" * PART
            assert at_origin(origin, "a/two") == b"1" * PART + b"2"
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
        assert "Traceback" not in process.output


async def test_a_worker_that_starts_meanwhile_accepts_nothing_either(tmp_path: Path) -> None:
    """One that has died during server.shutdown_delay is replaced, and the new one is told what the others were."""
    rest = JOURNAL.format(path=tmp_path / "journal", size="256MiB") + RULE
    server = 'shutdown_delay = "1h"\n'
    async with FakeOrigin() as origin, Node(origin, tmp_path, server=server, rest=rest) as node:
        origin.store.create_bucket("ckpt")
        durable = []

        async def put(key: str) -> None:
            answer = await node.client(0).request("PUT", path_of("ckpt", key), (), b"content")
            durable.append((answer.status, answer.headers["x-forebay-durable"]))

        await put("a/before")
        await node.supervisor.announce_shutdown()
        killed = await node.kill_worker(0)
        await node.wait_restarted(0, killed)
        async with node.supervisor.control.change_lock:  # a start holds it until the worker knows
            await put("a/after")
        assert durable == [(200, "local"), (200, "origin")]


@pytest.mark.long
async def test_boto3_uploads_through_restarts_of_the_workers(tmp_path: Path) -> None:
    """Each worker is ended in turn, as an operator would, while a client with its defaults uploads in parts."""
    file, content = tmp_path / "file", os.urandom(PART) * 3 + b"end"
    file.write_bytes(content)
    async with FakeOrigin() as origin, _serving(origin, tmp_path, 2, "60s") as process:
        origin.store.create_bucket("ckpt")
        await _put(process, "a/before")
        keys: list[str] = []
        over = asyncio.Event()
        client = boto_client(process.endpoint, TRAINER, retries=None)
        config = TransferConfig(multipart_threshold=PART, multipart_chunksize=PART)

        async def upload() -> None:
            while not over.is_set():
                keys.append(key := f"a/{len(keys)}")
                await asyncio.to_thread(client.upload_file, str(file), "ckpt", key, Config=config)

        async with asyncio.TaskGroup() as group:
            group.create_task(upload())
            for pid in workers_of(process.pid):
                os.kill(pid, signal.SIGTERM)
                await _until_ready(process, gone=pid)
            over.set()
        client.close()
        process.signal(signal.SIGTERM)
        assert await process.wait_exit() == 0
        assert [key for key in keys if at_origin(origin, key) != content] == []
        assert "Traceback" not in process.output


async def _until_ready(process: ForebayProcess, gone: int) -> None:
    """Until a worker has been replaced, and all serve."""
    [admin] = re.findall(r"metrics and control on (http://127\.0\.0\.1:[0-9]+)", process.output)
    async with asyncio.timeout(60):
        while gone in workers_of(process.pid) or (await request_admin(admin, "GET", "/readyz"))[0] != 200:  # noqa: ASYNC110 # a node tells nobody that it is ready again
            await asyncio.sleep(0.02)


async def test_sigterm_gives_pending_writes_their_time(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, _serving(origin, tmp_path, 2, "60s") as process:
        origin.store.create_bucket("ckpt")
        gate = Gate()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        for key in ("a/pending", "a/behind"):
            await _put(process, key)
        await gate.reached()
        process.signal(signal.SIGTERM)
        await process.wait_for_output("ending: requests under way have 60 s", times=2)
        assert at_origin(origin, "a/behind") is None
        gate.open()
        assert await process.wait_exit() == 0
        assert [at_origin(origin, key) for key in ("a/pending", "a/behind")] == [b"a/pending", b"a/behind"]
        assert "left in the journal" not in process.output


@pytest.mark.parametrize("ended_by", ["its time", "a second signal"])
async def test_sigterm_says_what_is_left_for_the_next_start(tmp_path: Path, ended_by: str) -> None:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("ckpt")
        gate = Gate()
        holding = origin.faults.add(HoldRequest(gate), method="PUT", key="a/pending")
        async with _serving(origin, tmp_path, 1, "200ms" if ended_by == "its time" else "60s") as process:
            for key in ("a/pending", "a/behind"):
                await _put(process, key)
            await gate.reached()
            process.signal(signal.SIGTERM)
            await process.wait_for_output("ending: requests under way have")
            if ended_by == "a second signal":
                process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
            assert "left in the journal for the next start: 2 of the acknowledged writes" in process.output
        origin.faults.remove(holding)
        gate.open()
        async with _serving(origin, tmp_path, 1, "60s") as process:
            await process.wait_for_output("writes in the journal and not yet at the origin: 2")
            process.signal(signal.SIGTERM)
            assert await process.wait_exit() == 0
        assert [at_origin(origin, key) for key in ("a/pending", "a/behind")] == [b"a/pending", b"a/behind"]
