"""A write that is stuck, or in conflict, waits for a person: what has to come after it is refused at once, in every
worker, and goes on when the person has acted."""

import asyncio
from pathlib import Path

import pytest

from forebay.write.back.write_back import WriteBack
from harness.clients import RawClient, path_of
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import RawAnswer
from harness.worker_node import Node
from harness.write_back_rig import JOURNAL, RULE, WriteBackRig, at_origin

FENCE = 'fence = ["**/latest*"]\n'


def _is_held_up(answer: RawAnswer) -> bool:
    """Whether it says that a person has to act, and not of which object: its client may not know of that one."""
    assert b"a/refused" not in answer.body
    return answer.status == 503 and b"is stuck, until an operator decides" in answer.body


async def _stick(rig: WriteBackRig, origin: FakeOrigin) -> WriteBack:
    """Has the write of a/refused stuck."""
    await rig.prove()
    origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/refused", times=1)
    await rig.put("a/refused", b"refused once")
    await run_loop_until(lambda: bool(rig.write_back.drainer.stopped))
    return rig.write_back


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("PUT", "a/latest", ()),
        ("PUT", "a/new", (("x-forebay-durability", "origin"),)),
        ("PUT", "a/refused", (("If-None-Match", "*"),)),
        ("GET", "a/refused?tagging", ()),
        ("GET", "a/after?tagging", ()),
    ],
)
async def test_what_has_to_come_after_it_is_refused_at_once(
    tmp_path: Path, method: str, target: str, headers: tuple[tuple[str, str], ...]
) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, FENCE) as rig, asyncio.timeout(20):
        write_back = await _stick(rig, origin)
        await rig.put("a/after", b"acknowledged after it")
        path, question, query = target.partition("?")
        path = path_of("ckpt", path) + question + query
        assert _is_held_up(await rig.client().request(method, path, headers, b"later" if method == "PUT" else b""))
        [stuck] = write_back.shown.stopped
        write_back.drainer.retry(stuck)
        await rig.settled()
        assert [at_origin(origin, key) for key in ("a/refused", "a/after")] == [
            b"refused once",
            b"acknowledged after it",
        ]
        again = await rig.client().request(method, path, headers, b"later" if method == "PUT" else b"")
        assert again.status != 503


async def test_what_need_not_come_after_it_is_not_held_up(tmp_path: Path) -> None:
    rest = '[[rules]]\npath = "other/**"\nwrite = "back"\n'
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path, FENCE, rest) as rig:
        await _stick(rig, origin)
        origin.store.create_bucket("other")
        for bucket, key, headers in (("other", "a/x", (("x-forebay-durability", "origin"),)), ("ckpt", "a/x", ())):
            answer = await rig.client().request("PUT", path_of(bucket, key), headers, b"x")
            assert answer.status == 200
        assert (await rig.client().request("GET", path_of("ckpt", "a/other") + "?tagging")).status != 503


async def test_every_worker_knows_of_it(tmp_path: Path) -> None:
    """Also one that begins later; and that it is tried again."""
    rest = JOURNAL.format(path=tmp_path / "journal", size="64MiB") + RULE + FENCE
    async with FakeOrigin() as origin, Node(origin, tmp_path, rest=rest) as node, asyncio.timeout(60):
        origin.store.create_bucket("ckpt")
        assert (await node.client(0).request("PUT", path_of("ckpt", "a/proof"), (), b"")).status == 200
        await node.request_admin("POST", "/v1/flush", {"bucket": "ckpt", "wait": 30})
        refusal = origin.faults.add(Respond(403, "AccessDenied"), method="PUT", key="a/refused")
        first = await node.client(0).request("PUT", path_of("ckpt", "a/refused"), (), b"refused")
        assert first.headers["x-forebay-durable"] == "local"
        for worker in (0, 1):
            await _held_up(node.client(worker))
        other = _other_than_the_drainer(node)
        await node.wait_restarted(other, await node.kill_worker(other))
        await _held_up(node.client(other))
        origin.faults.remove(refusal)
        _, listed = await node.request_admin("GET", "/v1/writes?state=stuck")
        [number] = [each["id"] for each in listed["writes"]]
        assert (await node.request_admin("POST", f"/v1/writes/{number}/retry"))[0] == 200
        for worker in (0, 1):
            while (await node.client(worker).request("PUT", path_of("ckpt", "a/latest"), (), b"x")).status != 200:
                pass
        assert at_origin(origin, "a/refused") == b"refused"


async def _held_up(client: RawClient) -> None:
    """Returns once a fence is refused as a write before it is stuck; before that it waits, for less than a second."""
    answer = await client.request("PUT", path_of("ckpt", "a/latest"), (), b"x")
    assert _is_held_up(answer), answer


def _other_than_the_drainer(node: Node) -> int:
    """The worker that does not hold the lock of the drain."""
    held = {line.split()[4] for line in Path("/proc/locks").read_text().splitlines() if _inode(node) in line}
    return next(worker for worker in (0, 1) if str(node.process(worker).pid) not in held)


def _inode(node: Node) -> str:
    return f":{(node.directory / 'journal' / 'drain.lock').stat().st_ino} "
