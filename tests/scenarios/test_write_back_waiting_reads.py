"""A read that waits for pending writes keeps its client from giving up, in either lane. An entry of a batch can't."""

from pathlib import Path
from typing import Final

import pytest

from forebay.core.task_registry import TaskRegistry
from harness.batches import batch_body, entries_in
from harness.clients import path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.reference_sigv4 import Secret
from harness.write_back_rig import WriteBackRig

OWN: Final = Secret("own", "own-secret")
KEYS: Final = (
    '[[auth.keys]]\nid = "own"\nsecret = "own-secret"\ngrants = [{ path = "**", allow = ["read", "write"] }]\n'
    'origin_access_key = "%s"\norigin_secret_key = "%s"\n\n'
)
INTERVAL: Final = 0.05
AGENT: Final = ("User-Agent", "a client with a name")
TARGET: Final = path_of("ckpt", "a/object")


def _rig(origin: FakeOrigin, directory: Path) -> WriteBackRig:
    return WriteBackRig(origin, directory, rest=KEYS % (origin.secret.access, origin.secret.secret))


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("headers", [(AGENT,), (AGENT, ("Connection", "close"))], ids=["fast lane", "full lane"])
async def test_a_waiting_read_gets_two_interim_responses(
    tmp_path: Path, method: str, headers: tuple[tuple[str, str], ...]
) -> None:
    """A credential of its own reads what the origin has."""
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        gate, client = Gate(), rig.client(OWN)
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        await rig.put("a/object", b"pending")
        rig.parts.requests.reader.interim_interval = INTERVAL
        async with await client.open() as connection:
            await connection.send(client.sign(method, TARGET, headers).wire)
            for _ in range(2):
                assert (await connection.read_head("100-continue")).status == 100
            gate.open()
            answer = await connection.answer(method)
        assert (answer.status, answer.body) == (200, b"pending" if method == "GET" else b"")


async def test_what_only_the_origin_answers_waits_alike(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        gate, client = Gate(), rig.client()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        await rig.put("a/object", b"pending")
        rig.write_back.barriers.read_interval = INTERVAL
        async with await client.open() as connection:
            await connection.send(client.sign("GET", f"{TARGET}?tagging=", (AGENT,)).wire)
            for _ in range(2):
                assert (await connection.read_head("100-continue")).status == 100
            gate.open()
            assert (await connection.answer()).status == 200


async def test_an_entry_of_a_batch_gets_no_interim_response(tmp_path: Path) -> None:
    """It would stand in the middle of the TAR: the first entry has left already."""
    async with FakeOrigin() as origin, _rig(origin, tmp_path) as rig:
        await rig.prove()
        gate, client, tasks = Gate(), rig.client(OWN), TaskRegistry()
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
        origin.store.put("ckpt", "a/first", b"first")
        await rig.put("a/object", b"pending")
        rig.parts.requests.reader.interim_interval = INTERVAL
        body = batch_body(["a/first", "a/object"])
        batch = tasks.spawn(client.request("POST", "/ckpt/.forebay/batch", (AGENT,), body), "batch")
        await run_loop_until(lambda: rig.write_back.pending.waiting > 0)
        async with await client.open() as connection:
            await connection.send(client.sign("GET", TARGET, (AGENT,)).wire)
            assert (await connection.read_head("100-continue")).status == 100  # so one was due for the entry
            gate.open()
            assert (await connection.answer()).body == b"pending"
        entries = entries_in((await batch).body)
        assert [(entry.key, entry.body) for entry in entries] == [("a/first", b"first"), ("a/object", b"pending")]
