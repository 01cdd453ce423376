"""Bytes put aside: in memory, in files, within a limit, and gone in the end."""

import asyncio
import threading
from pathlib import Path

import pytest

from forebay.core.errors import SpoolFailed, SpoolFull, Throttled
from forebay.core.fair_semaphore import FairSemaphore
from forebay.storage.spool import Spool, SpooledBody


def holds_of(
    directory: Path, *, limit: int = 1000, memory: int = 1000, share: int = 1000
) -> tuple[Spool, FairSemaphore]:
    budget = FairSemaphore(memory)
    return Spool(limit, budget, share=share, wait=0.01, parent=directory / "held"), budget


async def put(holds: Spool, *pieces: bytes) -> SpooledBody:
    hold = holds.create()
    await hold.reserve(sum(map(len, pieces)))
    for piece in pieces:
        hold.append(piece)
    await hold.spill()
    return hold


async def content(hold: SpooledBody) -> bytes:
    return b"".join([piece async for piece in hold.pieces()])


def files(directory: Path) -> list[str]:
    return sorted(file.name for file in directory.glob("held/*/*"))


def directories(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.glob("held/*"))


def modes(directory: Path) -> list[int]:
    """Of the private directory and the file in it."""
    file = next(directory.glob("held/*/0"))
    return [path.stat().st_mode & 0o777 for path in (file.parent, file)]


def empty(directory: Path) -> None:
    next(directory.glob("held/*/0")).write_bytes(b"")


async def test_a_body_within_the_share_stays_in_memory(tmp_path: Path) -> None:
    holds, budget = holds_of(tmp_path)
    hold = await put(holds, b"one", memoryview(b"two").tobytes())
    assert (await content(hold), hold.size, budget.in_use, holds.in_use) == (b"onetwo", 6, 6, 6)
    assert files(tmp_path) == []
    hold.release()
    hold.release()
    assert (len(holds), budget.in_use, holds.in_use) == (0, 0, 0)


async def test_a_body_above_the_share_is_spilled_to_a_private_file(tmp_path: Path) -> None:
    holds, budget = holds_of(tmp_path, share=4)
    small, large = await put(holds, b"1234"), await put(holds, b"12345", b"6")
    assert (await content(small), await content(large)) == (b"1234", b"123456")
    assert (await content(large), budget.in_use, holds.in_use) == (b"123456", 4, 10)
    assert files(tmp_path) == ["0", "lock"]
    assert modes(tmp_path) == [0o700, 0o600]
    await large.reserve(3)
    large.append(b"abc")
    assert await content(large) == b"123456abc"
    await large.spill()
    assert (await content(large), budget.in_use) == (b"123456abc", 4)
    large.release()
    assert (files(tmp_path), holds.in_use) == (["lock"], 4)
    holds.close()
    assert (directories(tmp_path), budget.in_use, holds.in_use) == ([], 0, 0)


async def test_the_limit_is_of_memory_and_files(tmp_path: Path) -> None:
    holds, budget = holds_of(tmp_path, limit=10, share=0)
    hold = await put(holds, b"12345678")
    with pytest.raises(SpoolFull, match=r"limits\.held"):
        await put(holds, b"123")
    assert (holds.in_use, budget.in_use) == (8, 0)
    hold.release()
    assert await content(await put(holds, b"123")) == b"123"
    holds.close()


async def test_memory_that_does_not_come_free_is_throttled(tmp_path: Path) -> None:
    holds, budget = holds_of(tmp_path, memory=10)
    assert budget.try_acquire(8)
    hold = holds.create()
    with pytest.raises(Throttled):
        await hold.reserve(3)
    assert (holds.in_use, budget.in_use) == (0, 8)
    holds.close()


async def test_appending_more_than_was_reserved_raises(tmp_path: Path) -> None:
    holds, _ = holds_of(tmp_path)
    hold = await put(holds, b"abc")
    with pytest.raises(ValueError, match="prepared"):
        hold.append(b"d")
    holds.close()


async def test_release_during_a_spill_drops_the_bytes(tmp_path: Path) -> None:
    holds, budget = holds_of(tmp_path, share=0)
    hold = holds.create()
    await hold.reserve(3)
    hold.append(b"abc")
    async with asyncio.TaskGroup() as group:
        group.create_task(hold.spill())
        await asyncio.sleep(0)
        hold.release()
    assert (files(tmp_path), holds.in_use, budget.in_use, holds.in_memory) == (["lock"], 0, 0, 0)
    with pytest.raises(SpoolFailed):
        await content(hold)
    holds.close()


class SlowPath(type(Path())):  # type: ignore[misc]  # the class of this system's paths
    """A directory that takes its time to be made."""

    made = threading.Event()

    def mkdir(self, *given: object, **named: object) -> None:
        assert self.made.wait(10)
        super().mkdir(*given, **named)


async def test_release_during_an_abandoned_spill_removes_the_file(tmp_path: Path) -> None:
    SlowPath.made.clear()
    holds = Spool(1000, FairSemaphore(1000), share=0, wait=0.01, parent=SlowPath(tmp_path / "held"))
    hold = holds.create()
    await hold.reserve(3)
    hold.append(b"abc")
    settling = asyncio.get_running_loop().create_task(hold.spill())
    await asyncio.sleep(0)
    settling.cancel()
    await asyncio.wait([settling])
    hold.release()
    SlowPath.made.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert (files(tmp_path), holds.in_use) == (["lock"], 0)
    holds.close()


async def test_a_full_disk_leaves_the_body_in_memory(tmp_path: Path) -> None:
    (tmp_path / "held").write_text("a file where the directory should be")
    holds, budget = holds_of(tmp_path, share=0)
    hold = holds.create()
    await hold.reserve(3)
    hold.append(b"abc")
    with pytest.raises(SpoolFailed):
        await hold.spill()
    assert (await content(hold), budget.in_use) == (b"abc", 3)
    holds.close()
    assert (budget.in_use, holds.in_use) == (0, 0)


async def test_a_truncated_file_fails_the_read(tmp_path: Path) -> None:
    holds, _ = holds_of(tmp_path, share=0)
    hold = await put(holds, b"abc")
    empty(tmp_path)
    with pytest.raises(SpoolFailed):
        await content(hold)
    holds.close()


async def test_only_directories_of_killed_processes_are_removed(tmp_path: Path) -> None:
    abandoned = tmp_path / "held" / "forebay-holds-dead"
    abandoned.mkdir(parents=True)
    (abandoned / "lock").touch()
    (abandoned / "7").write_bytes(b"left")
    first, _ = holds_of(tmp_path, share=0)
    await put(first, b"abc")
    assert "forebay-holds-dead" not in directories(tmp_path)
    second, _ = holds_of(tmp_path, share=0)
    await put(second, b"abc")
    assert len(directories(tmp_path)) == 2
    first.close()
    second.close()


async def test_another_process_reads_a_file_until_its_release(tmp_path: Path) -> None:
    holds, budget = holds_of(tmp_path)
    hold = await put(holds, b"abc", b"def")
    lent = await hold.to_file()
    assert (b"".join([piece async for piece in lent.pieces()]), budget.in_use) == (b"abcdef", 0)
    lent.release()
    assert await content(hold) == b"abcdef"
    hold.release()
    with pytest.raises(SpoolFailed):
        [piece async for piece in lent.pieces()]
    holds.close()
