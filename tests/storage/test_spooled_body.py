"""Spooled bodies: in memory, in files, released in the end."""

import asyncio
import shutil
import threading
from pathlib import Path

import pytest

from forebay.core.errors import SpoolFailed
from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.spool import Spool
from forebay.storage.spooled_body import SpooledBody


def spool_of(
    directory: Path, *, limit: int = 1000, memory: int = 1000, share: int = 1000
) -> tuple[Spool, FairSemaphore]:
    budget = FairSemaphore(memory)
    return Spool(limit, budget, share=share, wait=0.01, parent=directory / "held"), budget


async def spooled(spool: Spool, *pieces: bytes) -> SpooledBody:
    body = spool.create()
    await body.reserve(sum(map(len, pieces)))
    for piece in pieces:
        body.append(piece)
    await body.spill()
    return body


async def content(body: SpooledBody) -> bytes:
    return b"".join([piece async for piece in body.pieces()])


def files(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.glob("held/*/*"))


def directories(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.glob("held/*"))


def modes(directory: Path) -> list[int]:
    """Returns the modes of the private directory and the file in it."""
    file = next(directory.glob("held/*/0"))
    return [path.stat().st_mode & 0o777 for path in (file.parent, file)]


def empty(directory: Path) -> None:
    next(directory.glob("held/*/0")).write_bytes(b"")


async def test_a_body_within_the_share_stays_in_memory(tmp_path: Path) -> None:
    spool, budget = spool_of(tmp_path)
    body = await spooled(spool, b"one", memoryview(b"two").tobytes())
    assert (await content(body), body.size, budget.in_use, spool.in_use) == (b"onetwo", 6, 6, 6)
    assert files(tmp_path) == []
    body.release()
    body.release()
    assert (len(spool), budget.in_use, spool.in_use) == (0, 0, 0)


async def test_a_body_above_the_share_is_spilled_to_a_private_file(tmp_path: Path) -> None:
    spool, budget = spool_of(tmp_path, share=4)
    small, large = await spooled(spool, b"1234"), await spooled(spool, b"12345", b"6")
    assert (await content(small), await content(large)) == (b"1234", b"123456")
    assert (await content(large), budget.in_use, spool.in_use) == (b"123456", 4, 10)
    assert files(tmp_path) == ["0", "lock"]
    assert modes(tmp_path) == [0o700, 0o600]
    await large.reserve(3)
    large.append(b"abc")
    assert await content(large) == b"123456abc"
    await large.spill()
    assert (await content(large), budget.in_use) == (b"123456abc", 4)
    large.release()
    assert (files(tmp_path), spool.in_use) == (["lock"], 4)
    spool.close()
    assert (directories(tmp_path), budget.in_use, spool.in_use) == ([], 0, 0)


async def test_appending_more_than_was_reserved_raises(tmp_path: Path) -> None:
    spool, _ = spool_of(tmp_path)
    body = await spooled(spool, b"abc")
    with pytest.raises(ValueError, match="reserved"):
        body.append(b"d")
    spool.close()


async def test_release_during_a_spill_drops_the_bytes(tmp_path: Path) -> None:
    spool, budget = spool_of(tmp_path, share=0)
    body = spool.create()
    await body.reserve(3)
    body.append(b"abc")
    async with asyncio.TaskGroup() as group:
        group.create_task(body.spill())
        await asyncio.sleep(0)
        body.release()
    assert (files(tmp_path), spool.in_use, budget.in_use, spool.in_memory) == (["lock"], 0, 0, 0)
    with pytest.raises(SpoolFailed):
        await content(body)
    spool.close()


class SlowPath(type(Path())):  # type: ignore[misc]  # the class of this system's paths
    """A directory whose creation is slow."""

    made = threading.Event()

    def mkdir(self, *arguments: object, **named: object) -> None:
        assert self.made.wait(10)
        super().mkdir(*arguments, **named)


async def test_release_during_an_abandoned_spill_removes_the_file(tmp_path: Path) -> None:
    SlowPath.made.clear()
    spool = Spool(1000, FairSemaphore(1000), share=0, wait=0.01, parent=SlowPath(tmp_path / "held"))
    body = spool.create()
    await body.reserve(3)
    body.append(b"abc")
    spilling = asyncio.get_running_loop().create_task(body.spill())
    await asyncio.sleep(0)
    spilling.cancel()
    await asyncio.wait([spilling])
    body.release()
    SlowPath.made.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert (files(tmp_path), spool.in_use) == (["lock"], 0)
    spool.close()


async def test_a_full_disk_leaves_the_body_in_memory(tmp_path: Path) -> None:
    (tmp_path / "held").write_text("a file where the directory should be")
    spool, budget = spool_of(tmp_path, share=0)
    body = spool.create()
    await body.reserve(3)
    body.append(b"abc")
    with pytest.raises(SpoolFailed):
        await body.spill()
    assert (await content(body), budget.in_use) == (b"abc", 3)
    spool.close()
    assert (budget.in_use, spool.in_use) == (0, 0)


async def test_a_truncated_file_fails_the_read(tmp_path: Path) -> None:
    spool, _ = spool_of(tmp_path, share=0)
    body = await spooled(spool, b"abc")
    empty(tmp_path)
    with pytest.raises(SpoolFailed):
        await content(body)
    spool.close()


async def test_another_process_reads_a_file_until_its_release(tmp_path: Path) -> None:
    spool, budget = spool_of(tmp_path)
    body = await spooled(spool, b"abc", b"def")
    spooled_file = await body.to_file()
    assert (b"".join([piece async for piece in spooled_file.pieces()]), budget.in_use) == (b"abcdef", 0)
    spooled_file.release()
    assert await content(body) == b"abcdef"
    body.release()
    with pytest.raises(SpoolFailed):
        [piece async for piece in spooled_file.pieces()]
    spool.close()


async def test_try_reserve_does_not_wait(tmp_path: Path) -> None:
    spool, budget = spool_of(tmp_path, limit=10, memory=8)
    body = spool.create()
    assert (body.try_reserve(6), body.try_reserve(6), budget.in_use, spool.in_use) == (True, False, 6, 6)
    body.append(b"123456")
    await body.spill(whole=True)
    assert (body.try_reserve(5), body.try_reserve(4), budget.in_use, spool.in_use) == (False, True, 4, 10)
    body.release()
    assert (body.try_reserve(1), budget.in_use, spool.in_use) == (False, 0, 0)
    spool.close()


async def test_a_few_bytes_are_not_worth_a_file_while_more_come(tmp_path: Path) -> None:
    spool, _ = spool_of(tmp_path, share=0)
    body = await spooled(spool, b"12345", b"6")
    await body.reserve(3)
    body.append(b"789")
    await body.spill(least=4)
    assert spool.in_memory == 3
    await body.spill(least=3)
    assert (spool.in_memory, await content(body)) == (0, b"123456789")
    spool.close()


async def test_many_small_pieces_take_the_memory_of_their_bytes(tmp_path: Path) -> None:
    spool, _ = spool_of(tmp_path, limit=1 << 20, memory=1 << 20, share=1 << 20)
    body, expected = spool.create(), bytearray()
    for number in range(20_000):
        piece = number.to_bytes(2, "big")
        await body.reserve(2)
        body.append(piece)
        expected += piece
        if number == 7000:
            await body.spill(whole=True)
        if number in {9000, 9001}:  # what is being read does not change
            assert await content(body) == expected
    assert await content(body) == expected
    assert len([piece async for piece in body.pieces()]) < 20
    spool.close()


async def test_a_directory_that_somebody_removed_is_made_again(tmp_path: Path) -> None:
    """As cleaners of temporary files remove those that are not used for days."""
    spool, _ = spool_of(tmp_path, share=1)
    lost = await spooled(spool, b"one")
    shutil.rmtree(tmp_path / "held")
    body = await spooled(spool, b"another")
    assert (await content(body), files(tmp_path)) == (b"another", ["1", "lock"])
    with pytest.raises(SpoolFailed):
        await content(lost)
    spool.close()
    assert directories(tmp_path) == []
