"""Large bodies that the kernel sends from shared blocks: complete, in order and unchanged under every disturbance."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from forebay.core.names import ObjectName
from harness.both_loops import BOTH_LOOPS, run_on
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.rig import Rig
from harness.ssd_rig import drop_page_cache

MIB = 1 << 20
SIZE = 6 * MIB + 12_345
BLOCKS = 7
SMALLER = 3 * MIB + 12_345
TARGET = path_of("b", "large")
BELIEVED = '[[rules]]\npath = "**"\nfreshness = "immutable"\n'
IMPATIENT = '[limits]\nbody_timeout = "1s"\nidle_timeout = "60s"\n'


async def shared(rig: Rig, origin: FakeOrigin) -> bytes:
    """Fill a hit, and ask for it until all of it can be sent as it is."""
    content = random.Random(5).randbytes(SIZE)
    origin.store.put("b", "large", content)
    origin.store.put("b", "small", b"small")
    await rig.client().request("GET", path_of("b", "small"))
    async with asyncio.timeout(20), await rig.client().open() as connection:
        while len(rig.parts.storage.tiers.memory.arenas) < BLOCKS:
            answer = await rig.client().send(rig.client().sign("GET", TARGET), connection)
            assert answer.body == content
    return content


async def a_body_is_the_same_however_it_is_sent(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        content, client = await shared(rig, origin), rig.client()
        gets = origin.log.count("GET")
        async with await client.open() as connection:
            for start, stop in ((0, SIZE), (1, SIZE), (MIB - 7, 3 * MIB + 9), (5, 200_000), (SIZE - 140_000, SIZE)):
                asked = [("Range", f"bytes={start}-{stop - 1}")]
                for _ in range(2):
                    answer = await client.send(client.sign("GET", TARGET, asked), connection)
                    assert (answer.status, answer.body) == (206, content[start:stop])
        assert origin.log.count("GET") == gets


async def what_is_asked_behind_a_large_body_is_answered_behind_it(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        content, client = await shared(rig, origin), rig.client()
        large, small = client.sign("GET", TARGET).wire, client.sign("GET", path_of("b", "small")).wire
        missing = client.sign("GET", path_of("b", "none")).wire
        async with await client.open(receive_buffer=4096) as connection:
            await connection.send(small + large + small + large + missing + small)
            bodies = [(await connection.answer()).body for _ in range(4)]
            assert bodies == [b"small", content, b"small", content]
            assert [(await connection.answer()).status for _ in range(2)] == [404, 200]
            await connection.send(large)
            await connection.send(small)  # while the large one is on its way
            assert (await connection.answer()).body == content
            assert (await connection.answer()).body == b"small"


async def a_slow_client_takes_of_the_budget_and_is_in_nobodys_way(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, buffers="16MiB") as rig:
        content, client = await shared(rig, origin), rig.client()
        slow = await client.open(receive_buffer=4096)
        await slow.send(client.sign("GET", TARGET).wire)
        await run_loop_until(lambda: rig.parts.storage.budget.in_use == SIZE)
        assert rig.worker.listener.requests.in_flight == 1
        # No room for another: by the full lane, a block at a time. Nor does eviction touch what is on its way.
        assert (await client.request("GET", TARGET)).body == content
        await rig.parts.storage.tiers.forget(ObjectName("b", "large"))
        assert (await slow.answer()).body == content
        await run_loop_until(lambda: rig.parts.storage.budget.in_use == 0)
        assert rig.worker.listener.requests.in_flight == 0
        await slow.close()


async def a_client_that_leaves(tmp_path: Path, leave: str = "reset") -> None:
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, timers := ManualTimers(), rest=IMPATIENT) as rig,
        asyncio.timeout(30),
    ):
        await shared(rig, origin)
        client = rig.client()
        connection = await client.open(receive_buffer=4096)
        await connection.send(client.sign("GET", TARGET).wire)
        await run_loop_until(lambda: rig.parts.storage.budget.in_use == SIZE)
        if leave == "reset":
            connection.reset()
        with timers.flowing(0.0 if leave == "reset" else 0.1):
            await run_loop_until(
                lambda: rig.parts.storage.budget.in_use == 0 and rig.worker.listener.requests.in_flight == 0
            )
        if leave != "reset":
            assert timers.time() >= 1.0
            assert (await connection.answer()).aborted
            await connection.close()


async def draining_waits_for_a_body_that_is_on_its_way(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig, asyncio.timeout(30):
        content, client = await shared(rig, origin), rig.client()
        async with await client.open(receive_buffer=4096) as connection, asyncio.TaskGroup() as group:
            await connection.send(client.sign("GET", TARGET).wire)
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 1)
            group.create_task(rig.stop())
            assert (await connection.answer()).body == content
            assert await connection.ended()


async def files_that_are_given_up(tmp_path: Path) -> None:
    """Every other block of an object is read all the time, the others make room for other objects."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, memory="66MiB") as rig:
        content, client, memory = await shared(rig, origin), rig.client(), rig.parts.storage.tiers.memory
        assert memory.arenas.charged() > SIZE
        async with asyncio.timeout(60), await client.open() as connection:
            for number in range(75):
                start = MIB + number % 3 * 2 * MIB
                asked = [("Range", f"bytes={start}-{start + MIB // 2 - 1}")]
                answer = await client.send(client.sign("GET", TARGET, asked), connection)
                assert answer.body == content[start : start + MIB // 2]
                origin.store.put("b", f"other-{number}", content[:MIB])
                assert (await client.request("GET", path_of("b", f"other-{number}"))).body == content[:MIB]
                assert memory.used <= 66 * MIB
            await run_loop_until(lambda: memory.arenas.charged() == 0)


@asynccontextmanager
async def on_the_ssd(tmp_path: Path, content: bytes, rest: str = "") -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    """A proxy that has `content` on its SSD, and too little memory for it."""
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, memory="512KiB", ssd="64MiB", rest=rest) as rig,
    ):
        origin.store.put("b", "large", content)
        await rig.client().request("GET", TARGET)
        await rig.parts.storage.tiers.flush()
        yield rig, origin


def emptied(directory: Path) -> None:
    """What the page cache has of the segments is let go of."""
    for segment in directory.rglob("*.seg"):
        drop_page_cache(segment)


async def a_body_on_the_ssd(tmp_path: Path) -> None:
    """Whole and in ranges, to a quick client and to a slow one that finds the page cache emptied meanwhile."""
    content = random.Random(6).randbytes(SMALLER)
    async with on_the_ssd(tmp_path, content) as (rig, origin):
        client, gets = rig.client(), origin.log.count("GET")
        for start, stop in ((0, SMALLER), (MIB - 7, 2 * MIB + 9), (SMALLER - 300_000, SMALLER), (5, 70_000)):
            answer = await client.request("GET", TARGET, [("Range", f"bytes={start}-{stop - 1}")])
            assert (answer.headers["x-forebay-cache"], answer.body) == ("hit-ssd", content[start:stop])
        # The last block is short: there is room for it in memory, and it is sent from there.
        while not len(rig.parts.storage.tiers.memory.arenas):
            assert (await client.request("GET", TARGET)).body == content
        async with await client.open(receive_buffer=4096) as slow:
            await slow.send(client.sign("GET", TARGET).wire)
            await run_loop_until(lambda: rig.worker.listener.requests.in_flight == 1)
            emptied(tmp_path / "ssd")
            assert (await slow.answer()).body == content
        assert origin.log.count("GET") == gets


def damage(directory: Path, piece: bytes) -> None:
    """To the last copy of these bytes in the one segment that has them."""
    [(segment, place)] = [
        (path, at) for path in directory.rglob("*.seg") if (at := path.read_bytes().rfind(piece)) >= 0
    ]
    with segment.open("r+b") as file:
        file.seek(place)
        file.write(b"damage")


async def damage_on_the_ssd(tmp_path: Path) -> None:
    """It is found before a byte of the block is sent: a miss, and nothing else."""
    content = random.Random(7).randbytes(SMALLER)
    async with on_the_ssd(tmp_path, content) as (rig, origin):
        client, gets = rig.client(), origin.log.count("GET")
        damage(tmp_path / "ssd", content[MIB + 5 : MIB + 105])
        assert (await client.request("GET", TARGET)).body == content
        assert origin.log.count("GET") == gets + 1


async def damage_after_a_check(tmp_path: Path) -> None:
    """What was checked lately is sent without being read, on both lanes until the file changes: then it is a miss."""
    content = random.Random(8).randbytes(SMALLER)
    async with on_the_ssd(tmp_path, content, BELIEVED) as (rig, origin):
        client = rig.client()
        rig.advance_clock(60)  # the segment has rested
        spans = ((MIB - 9, 2 * MIB + 9), (MIB + 1, MIB + 65_537), (MIB, MIB + 300_000))
        asked = [[], *([("Range", f"bytes={start}-{stop - 1}")] for start, stop in spans)]
        whole = [content, *(content[start:stop] for start, stop in spans)]
        async with await client.open() as connection:
            for headers, expected in [*zip(asked, whole, strict=True)] * 3:
                answer = await client.send(client.sign("GET", TARGET, headers), connection)
                assert (answer.headers["x-forebay-cache"], answer.body) == ("hit-ssd", expected)
            for headers, expected in zip(asked, whole, strict=True):
                gets = origin.log.count("GET")
                damage(tmp_path / "ssd", content[MIB + 5 : MIB + 105])
                answer = await client.send(client.sign("GET", TARGET, headers), connection)
                assert (answer.status, answer.body) == (206 if headers else 200, expected)
                assert origin.log.count("GET") > gets
                await client.request("GET", TARGET)  # all of it is there again
                await rig.parts.storage.tiers.flush()
                rig.advance_clock(30)
                answer = await client.send(client.sign("GET", TARGET, headers), connection)
                assert (answer.headers["x-forebay-cache"], answer.body) == ("hit-ssd", expected)


async def damage_while_a_client_takes_its_time(tmp_path: Path) -> None:
    """It gets bytes that are right, or none: what it has not got yet is looked at again, in the page cache or not."""
    content = random.Random(9).randbytes(SMALLER)
    place = 3 * MIB - 100
    for leaves_the_page_cache in (False, True):
        directory = tmp_path / str(leaves_the_page_cache)
        directory.mkdir()
        async with on_the_ssd(directory, content, BELIEVED) as (rig, origin):
            client, gets = rig.client(), origin.log.count("GET")
            rig.advance_clock(60)  # the segment has rested
            request = client.sign("GET", TARGET, [("Range", f"bytes=0-{3 * MIB - 1}")])
            await client.send(request)  # it is checked
            async with asyncio.timeout(20), await client.open(receive_buffer=4096) as slow:
                await slow.send(request.wire)
                await run_loop_until(
                    lambda: rig.parts.storage.budget.in_use == 3 * MIB
                )  # all of it is being sent from there
                damage(directory / "ssd", content[place : place + 50])
                if leaves_the_page_cache:
                    emptied(directory / "ssd")
                answer = await slow.answer()
            assert answer.aborted
            assert content.startswith(answer.body)
            assert 0 < len(answer.body) <= place
            await run_loop_until(
                lambda: rig.worker.listener.requests.in_flight == 0 and rig.parts.storage.budget.in_use == 0
            )
            await rig.parts.storage.tiers.flush()
            assert (await client.request("GET", TARGET)).body == content
            assert origin.log.count("GET") == gets + 1


async def a_client_that_stalls(tmp_path: Path) -> None:
    await a_client_that_leaves(tmp_path, "takes nothing")


SCENARIOS = (
    a_body_is_the_same_however_it_is_sent,
    what_is_asked_behind_a_large_body_is_answered_behind_it,
    a_slow_client_takes_of_the_budget_and_is_in_nobodys_way,
    draining_waits_for_a_body_that_is_on_its_way,
    a_client_that_leaves,
    a_client_that_stalls,
    files_that_are_given_up,
    a_body_on_the_ssd,
    damage_on_the_ssd,
    damage_after_a_check,
    damage_while_a_client_takes_its_time,
)


@BOTH_LOOPS
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.__name__ for scenario in SCENARIOS])
def test_sending(
    scenario: Callable[[Path], Coroutine[Any, Any, None]],
    loop: Callable[[], asyncio.AbstractEventLoop],
    tmp_path: Path,
) -> None:
    run_on(loop, scenario(tmp_path))
