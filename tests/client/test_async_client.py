"""The asyncio twin has the calls of the client, and never blocks the loop."""

import asyncio
import inspect
import pickle
from pathlib import Path

import pytest

from forebay_client import AsyncClient, BatchKey, Client, ObjectInfo, ObjectNotFound
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin


def twin_of(origin: FakeOrigin, **arguments: int) -> AsyncClient:
    secret = origin.secret
    return AsyncClient(origin.endpoint, access_key=secret.access, secret_key=secret.secret, retries=0, **arguments)


def test_it_has_every_call_with_the_same_arguments() -> None:
    without = {"connections", "executor", "list_pages", "send_request"}
    calls = {name for name in dir(Client) if not name.startswith("_")} - without
    assert {name for name in vars(AsyncClient) if not name.startswith("_")} - {"blocking"} == calls
    for name in calls - {"stats", "close"}:
        ours, theirs = (inspect.signature(getattr(each, name)) for each in (AsyncClient, Client))
        assert list(ours.parameters.values()) == list(theirs.parameters.values()), name


async def test_its_calls_are_those_of_the_client(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, twin_of(origin) as client:
        origin.store.put("b", "seed", b"")
        (tmp_path / "file").write_bytes(b"of a file")
        assert (await client.put("b", "k", b"content")).size == 7
        assert (await client.put_file("b", "f", tmp_path / "file")).size == 9
        assert bytes(await client.get("b", "k")) == b"content"
        assert bytes(await client.get_range("b", "k", 1, 3)) == b"on"
        buffer = bytearray(3)
        assert (await client.get_into("b", "k", buffer, 4), bytes(buffer)) == (3, b"ent")
        assert (await client.head("b", "k")).size == 7
        assert [entry.key async for entry in client.list("b") if isinstance(entry, ObjectInfo)] == ["f", "k", "seed"]
        items = [item async for item in client.get_many("b", ["k", BatchKey("k", 1, 3), "none"])]
        assert [bytes(item.data or b"") for item in items] == [b"content", b"on", b""]
        file = await client.open("b", "k")
        assert await asyncio.to_thread(file.read) == b"content"
        written = await client.create("b", "w")
        await asyncio.to_thread(written.close)
        assert (await client.head("b", "w")).size == 0
        await client.delete("b", "k")
        with pytest.raises(ObjectNotFound):
            await client.get("b", "k")
        assert (await client.plan("b", "p", ["k"])).is_accepted is False
        assert (await client.warm("b", "k")).is_accepted is False
        await client.flush("b")
        assert await client.datasets("b") == []
        assert client.stats.requests["http"] > 10
        assert "secret" not in repr(client)
        assert bytes(await pickle.loads(pickle.dumps(client)).get("b", "f")) == b"of a file"


async def test_calls_run_beside_each_other() -> None:
    async with FakeOrigin() as origin, twin_of(origin, connections=4) as client:
        origin.store.put("b", "k", b"content")
        origin.faults.add(actions.HoldRequest(gate := Gate()))
        async with asyncio.TaskGroup() as group:
            reads = [group.create_task(client.get("b", "k")) for _ in range(4)]
            await gate.reached(4)
            gate.open()
        assert [bytes(read.result()) for read in reads] == [b"content"] * 4


async def test_a_cancelled_call_is_given_up() -> None:
    async with FakeOrigin() as origin, twin_of(origin) as client:
        origin.store.put("b", "k", b"content")
        origin.faults.add(actions.HoldRequest(gate := Gate()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.get("b", "k")
        gate.open()
        assert bytes(await client.get("b", "k")) == b"content"
