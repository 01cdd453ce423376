"""The body of a PUT is read from the journal once: its blocks are staged in the tiers as they are sent."""

import os
from pathlib import Path

import pytest

from forebay.core.byte_ranges import block_count
from forebay.core.heads import Head
from forebay.core.names import BlockId, ObjectName
from forebay.storage.journal.journal_files import JournalFiles
from harness.clients import path_of
from harness.fake.actions import HoldRequest, Respond
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.write_back_rig import WriteBackRig, at_origin

MIB = 1 << 20
NAME = ObjectName("ckpt", "a/object")
CONTENT = os.urandom(5 * MIB // 2)


class _CountedFiles(JournalFiles):
    """Counts the bytes of bodies that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def read_into(self, fd: int, buffer: memoryview, offset: int) -> int:
        size = super().read_into(fd, buffer, offset)
        self.read_bytes += size
        return size


def _counted(rig: WriteBackRig) -> _CountedFiles:
    files = rig.journal_files = _CountedFiles()
    return files


def _reads(origin: FakeOrigin) -> int:
    """How often the origin was read."""
    return sum((each.method, each.key) == ("GET", "a/object") for each in origin.log.requests)


def _blocks(rig: WriteBackRig) -> list[BlockId]:
    """The blocks of the object that readers see."""
    head = rig.write_back.pending.head(NAME)
    assert isinstance(head, Head)
    return [BlockId(NAME, head.generation, number) for number in range(block_count(head.size, head.block_size))]


@pytest.mark.parametrize("block", ["64KiB", "1MiB", "4MiB"])
async def test_a_body_is_read_once_and_is_a_hit_then(tmp_path: Path, block: str) -> None:
    async with FakeOrigin() as origin:
        rig = WriteBackRig(origin, tmp_path, f'block = "{block}"\n')
        files = _counted(rig)
        async with rig:
            await rig.prove()
            await rig.put("a/object", CONTENT)
            await rig.settled()
            assert (at_origin(origin, "a/object"), files.read_bytes) == (CONTENT, len(CONTENT))
            assert (await rig.client().request("GET", path_of("ckpt", "a/object"))).body == CONTENT
            assert _reads(origin) == 0


@pytest.mark.parametrize("block", ["64KiB", "1MiB"])
async def test_a_body_is_staged_by_its_first_attempt_alone(tmp_path: Path, block: str) -> None:
    """Of three: each reads it to send it, and once it is sent it is read for the tiers."""
    async with FakeOrigin() as origin:
        rig = WriteBackRig(origin, tmp_path, f'block = "{block}"\n')
        files = _counted(rig)
        async with rig:
            await rig.prove()
            origin.faults.add(Respond(503, "SlowDown"), method="PUT", key="a/object", times=2)
            admitted = rig.parts.storage.tiers.memory.counts.admitted_bytes
            await rig.put("a/object", CONTENT)
            await rig.settled()
            assert files.read_bytes == 4 * len(CONTENT)
            assert rig.parts.storage.tiers.memory.counts.admitted_bytes - admitted == 2 * len(CONTENT)


async def test_blocks_too_large_to_hold_are_staged_afterwards(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        rig = WriteBackRig(origin, tmp_path, 'block = "8MiB"\n')
        files = _counted(rig)
        async with rig:
            await rig.prove()
            await rig.put("a/object", CONTENT)
            await rig.settled()
            assert files.read_bytes == 2 * len(CONTENT)
            assert (await rig.client().request("GET", path_of("ckpt", "a/object"))).body == CONTENT
            assert _reads(origin) == 0


async def test_a_version_that_is_replaced_meanwhile_leaves_no_block(tmp_path: Path) -> None:
    """It is staged, and a later one is acknowledged before the origin has answered."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        gate, path = Gate(), path_of("ckpt", "a/object")
        origin.faults.add(HoldRequest(gate), method="PUT", key="a/object", times=1)
        await rig.put("a/object", CONTENT)
        await gate.reached()
        memory, first = rig.parts.storage.tiers.memory, _blocks(rig)
        assert all(map(memory.has, first))
        later = CONTENT[::-1]
        await rig.put("a/object", later)
        second = _blocks(rig)
        gate.open()
        await rig.settled()
        assert at_origin(origin, "a/object") == later
        assert (await rig.client().request("GET", path)).body == later
        assert _reads(origin) == 0
        assert (any(map(memory.has, first)), all(map(memory.has, second))) == (False, True)
