"""Objects that are written as files."""

import asyncio
import io
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from forebay_client import Client, ClientError, ObjectNotFound
from harness.fake_origin import FakeOrigin
from harness.forked import in_a_fork
from harness.rig import TRAINER, Rig

PART = 5 << 20


@pytest.fixture(params=["s3", "forebay"])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Client]:
    async with FakeOrigin() as origin:
        origin.store.create_bucket("data")
        if request.param == "s3":
            with Client(origin.endpoint, access_key=origin.secret.access, secret_key=origin.secret.secret) as client:
                yield client
        else:
            async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
                with Client(rig.endpoint, access_key=TRAINER.access, secret_key=TRAINER.secret) as client:
                    yield client


@pytest.mark.parametrize("size", [0, 100, PART, PART + 1, 6 * PART + 17])
async def test_what_is_written_is_the_object(client: Client, size: int) -> None:
    content = bytes(range(251)) * (size // 251 + 1)
    content = content[:size]

    def dialogue() -> None:
        with client.create("data", "k", PART, metadata={"step": "7"}) as file:
            for start in range(0, size, 1_000_003):
                file.write(content[start : start + 1_000_003])
            assert file.tell() == size
            with pytest.raises(ObjectNotFound):
                client.head("data", "k")
        assert bytes(client.get("data", "k")) == content
        assert file.info is not None
        assert (file.info.size, client.head("data", "k").metadata) == (size, {"step": "7"})

    await asyncio.to_thread(dialogue)


async def test_an_exception_leaves_nothing(client: Client) -> None:
    def fail() -> None:
        with client.create("data", "k", PART) as file:
            file.write(bytes(2 * PART))
            raise KeyError("the job")

    def dialogue() -> None:
        with pytest.raises(KeyError):
            fail()
        forgotten = client.create("data", "k", PART)
        forgotten.write(bytes(2 * PART))
        del forgotten
        with pytest.raises(ObjectNotFound):
            client.head("data", "k")

    await asyncio.to_thread(dialogue)


async def test_a_child_after_a_fork_does_not_end_the_upload(client: Client) -> None:
    def dialogue() -> None:
        content = random.Random(4).randbytes(2 * PART + 9)
        with client.create("data", "k", PART) as file:
            file.write(content)

            def in_the_child() -> list[str]:
                with pytest.raises(ValueError, match="forked") as written:
                    file.write(b"x")
                with pytest.raises(ValueError, match="forked") as closed:
                    file.close()
                return [str(written.value), str(closed.value)]

            assert len(in_a_fork(in_the_child)) == 2
            assert in_a_fork(file.abort) is None
        assert client.get("data", "k") == content

    await asyncio.to_thread(dialogue)


async def test_a_part_that_fails_is_raised(client: Client) -> None:
    def dialogue() -> None:
        file = client.create("nowhere", "k", PART)
        with pytest.raises(ClientError):
            file.write(bytes(PART))
        file.abort()
        with pytest.raises(ValueError, match="closed"):
            file.write(b"more")

    await asyncio.to_thread(dialogue)


async def test_it_is_written_in_order(client: Client) -> None:
    file = client.create("data", "k")
    assert (file.writable(), file.readable(), file.seek(0, io.SEEK_CUR), file.seek(0)) == (True, False, 0, 0)
    with pytest.raises(io.UnsupportedOperation):
        file.seek(5)
    file.abort()
