"""A small PUT whose body comes behind its head is answered as by aiohttp, byte for byte, however the body comes."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from harness.clients import RawRequest, path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.raw_connection import RawAnswer, RawConnection, head_bytes
from harness.rig import READER, TRAINER, Rig
from harness.write_back_rig import WriteBackRig, at_origin
from security.oss_signers import ALL_SIGNERS
from security.signers import Form

BODY: Final = bytes(range(256)) * 40
TARGETS: Final = {"back": path_of("ckpt", "a/object"), "through": path_of("bucket", "open/a")}
EXPECT: Final = ("Expect", "100-continue")
PASSING: Final = {"date", "x-amz-request-id", "last-modified"}


class Client:
    """One connection of a client, and what it heard."""

    def __init__(self, rig: Rig, timers: ManualTimers, connection: RawConnection, target: str) -> None:
        self.rig, self.timers, self.connection, self.target = rig, timers, connection, target
        self.heard: list[object] = []

    def put(self, *headers: tuple[str, str]) -> bytes:
        """The head of a PUT."""
        request = self.rig.client().sign("PUT", self.target, headers, BODY)
        return head_bytes(request.method, request.target, request.pairs)

    async def send(self, wire: bytes) -> None:
        """Send this, and have it read."""
        await self.connection.send(wire)
        await _turns()

    async def hear(self, method: str = "PUT") -> None:
        """Hear the next answer."""
        answer = await self.connection.answer(method)
        self.heard.append((answer.status, _lasting(answer), re.sub(rb"<(RequestId|HostId)>[^<]*<", b"<", answer.body)))

    async def hear_end(self) -> None:
        """Hear the end of the connection, or something else."""
        with self.timers.flowing(1.0):
            self.heard.append(await self.connection.ended())


async def _turns() -> None:
    """What was sent on loopback is read within a few turns of the loop."""
    for _ in range(20):
        await asyncio.sleep(0)


async def _waits(client: Client) -> None:
    await client.send(client.put(EXPECT))
    client.heard.append((await client.connection.read_head("100-continue")).status)
    await client.send(BODY[:1])
    await client.send(BODY[1:])
    await client.hear()
    await client.connection.send(client.rig.client().sign("GET", client.target).wire)
    await client.hear("GET")


async def _does_not_wait(client: Client) -> None:
    await client.send(client.put(EXPECT) + BODY)
    client.heard.append((await client.connection.read_head("100-continue")).status)
    await client.hear()


async def _in_pieces(client: Client) -> None:
    await client.send(client.put() + BODY[:3])
    for start in range(3, len(BODY), 1000):
        await client.send(BODY[start : start + 1000])
    await client.hear()


async def _next_behind_the_body(client: Client) -> None:
    await client.send(client.put() + BODY[:3])
    await client.send(BODY[3:] + client.rig.client().sign("GET", client.target).wire)
    await client.hear()
    await client.hear("GET")


async def _corrupt(client: Client) -> None:
    await client.send(client.put(EXPECT))
    client.heard.append((await client.connection.read_head("100-continue")).status)
    await client.send(BODY[1:] + b"x")
    await client.hear()


async def _refused(client: Client) -> None:
    request = client.rig.client(READER).sign("PUT", client.target, (EXPECT,), BODY)
    await client.send(head_bytes(request.method, request.target, request.pairs))
    await client.hear()
    await client.send(BODY + client.put())
    await client.hear_end()


async def _refused_and_silent(client: Client) -> None:
    request = client.rig.client(READER).sign("PUT", client.target, (), BODY)
    await client.send(head_bytes(request.method, request.target, request.pairs) + BODY[:5])
    await client.hear()
    await client.hear_end()


async def _stalls(client: Client) -> None:
    await client.send(client.put() + BODY[:5])
    with client.timers.flowing(1.0):
        await client.hear()
    await client.hear_end()


async def _leaves(client: Client) -> None:
    await client.send(client.put() + BODY[:5])
    client.connection.reset()


async def _says_all(client: Client) -> None:
    await client.send(client.put() + BODY[:5])
    await client.connection.half_close()
    await client.hear_end()


async def _drained(client: Client) -> None:
    await client.send(client.put(EXPECT))
    client.heard.append((await client.connection.read_head("100-continue")).status)
    client.rig.worker.listener.requests.is_draining = True
    client.rig.worker.listener.reads.begin_draining()
    for connection in list(client.rig.worker.listener.server.connections):
        connection.begin_draining()  # type: ignore[attr-defined] # aiohttp says that it is its own
    await client.send(BODY)
    await client.hear()
    await client.hear_end()


DIALOGUES: Final[dict[str, Callable[[Client], Awaitable[None]]]] = {
    function.__name__: function
    for function in (
        _waits,
        _does_not_wait,
        _in_pieces,
        _next_behind_the_body,
        _corrupt,
        _refused,
        _refused_and_silent,
        _stalls,
        _leaves,
        _says_all,
        _drained,
    )
}
STORED: Final = {"_waits", "_does_not_wait", "_in_pieces", "_next_behind_the_body", "_drained"}


@pytest.mark.parametrize("write", TARGETS)
@pytest.mark.parametrize("dialogue", DIALOGUES)
async def test_it_is_answered_and_recorded_as_by_aiohttp(tmp_path: Path, dialogue: str, write: str) -> None:
    for lane in ("past", "parsed"):
        (tmp_path / lane).mkdir()
    past, parsed = [await _run(tmp_path, dialogue, TARGETS[write], lane) for lane in ("past", "parsed")]
    assert past == parsed


@pytest.mark.parametrize("form", ALL_SIGNERS, ids="-".join)
async def test_every_form_of_signature_is_verified(tmp_path: Path, form: Form) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        target = TARGETS["back"]
        right = ALL_SIGNERS[form](TRAINER, "PUT", target, (), BODY, rig.now(), None)
        assert (await _in_two(rig, right)).status == 200
        wrong = ALL_SIGNERS[form](replace(TRAINER, secret="another"), "PUT", target, (), BODY, rig.now(), None)
        assert (await _in_two(rig, wrong)).status == 403


async def _in_two(rig: Rig, request: RawRequest) -> RawAnswer:
    wire, server = request.wire, rig.worker.listener.server
    before = server.requests_count
    end = wire.index(b"\r\n\r\n") + 4
    async with await rig.client().open() as connection:
        await connection.send(wire[:end])
        await _turns()
        await connection.send(wire[end:])
        answer = await connection.answer(request.method)
    assert server.requests_count == before
    return answer


async def _run(directory: Path, dialogue: str, target: str, lane: str) -> list[Any]:
    timers = ManualTimers()
    async with FakeOrigin() as origin, WriteBackRig(origin, directory / lane, timers=timers) as rig:
        await rig.prove()
        origin.store.create_bucket("bucket")
        # The drain carries writes in their order: behind this one it does not read the PUT's bytes beside a GET.
        origin.faults.add(HoldRequest(gate := Gate()), method="PUT", key="a/before")
        await rig.put("a/before", b"")
        requests, server = rig.worker.listener.requests, rig.worker.listener.server
        if lane == "parsed":
            rig.worker.listener.reads.fast_lane = None
        before = server.requests_count
        async with await rig.client().open() as connection:
            client = Client(rig, timers, connection, target)
            await DIALOGUES[dialogue](client)
            await run_loop_until(lambda: requests.is_idle)
        gate.open()
        await run_loop_until(lambda: not rig.worker.listener.connections)
        assert (server.requests_count > before) == (lane == "parsed")
        assert rig.parts.storage.budget.in_use == 0
        bucket, key = target[1:].split("/", 1)
        if target == TARGETS["through"]:
            assert at_origin(origin, key, bucket) == (BODY if dialogue in STORED else None)
    return [client.heard, [_record(line) for line in _lines(directory / lane / "rig" / "access.log")]]


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines()


def _record(line: str) -> dict[str, Any]:
    passing = {"time", "id", "ms", "first_byte_ms", "lane"}
    return {name: value for name, value in json.loads(line).items() if name not in passing}


def _lasting(answer: RawAnswer) -> list[tuple[str, str]]:
    return [pair for pair in answer.pairs if pair[0].lower() not in PASSING]
