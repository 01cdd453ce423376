"""Staging readers: every block is staged once, under its number, and the pieces make the body."""

import pytest

from forebay.core.byte_ranges import block_count, block_span
from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import BlockId, ObjectName, Version
from forebay.storage.journal.body_file import BodyDamaged, BodyRef
from forebay.storage.journal.pending_objects import BodyPart, PendingObjects
from forebay.write.back.drain.origin_uploads import READ_SIZE
from forebay.write.back.drain.staging_reader import StagingReader

NAME = ObjectName("b", "k")


class _Rig:
    def __init__(self, size: int, block_size: int) -> None:
        self.content = bytes(number % 251 for number in range(size))
        self.head: Head = head_of(ObjectFacts(Version('"e"'), size, "", ()), block_size, 0.0)
        self.staged: list[tuple[BlockId, bytes]] = []
        self.pending = PendingObjects(self._read_body)
        self.reader = StagingReader(self.pending, self._stage, NAME, self.head, (BodyPart(size, self.content, None),))

    async def _read_body(self, _ref: object, _within: object) -> memoryview:
        raise BodyDamaged("there are no files")

    def _stage(self, block: BlockId, buffer: memoryview) -> None:
        self.staged.append((block, bytes(buffer)))


@pytest.mark.parametrize("block_size", [1 << 16, READ_SIZE, 4 * READ_SIZE])
@pytest.mark.parametrize("size", [1, (1 << 16) + 1, READ_SIZE, 2 * READ_SIZE + 70_000, 4 * READ_SIZE, 5 * READ_SIZE])
async def test_blocks_are_staged_once_and_in_order(size: int, block_size: int) -> None:
    rig = _Rig(size, block_size)
    pieces = [bytes(piece) async for piece in rig.reader.read()]
    assert b"".join(pieces) == rig.content
    assert max(map(len, pieces)) <= max(block_size, READ_SIZE)
    spans = [block_span(number, block_size, size) for number in range(block_count(size, block_size))]
    assert rig.staged == [
        (BlockId(NAME, rig.head.generation, number), rig.content[span.start : span.stop])
        for number, span in enumerate(spans)
    ]
    assert rig.reader.is_at_end


async def test_a_body_that_is_left_is_not_at_its_end() -> None:
    rig = _Rig(2 * READ_SIZE, READ_SIZE)
    async for _ in rig.reader.read():
        break
    assert (len(rig.staged), rig.reader.is_at_end) == (1, False)


async def test_nothing_is_staged_of_what_cannot_be_read() -> None:
    staged: list[BlockId] = []
    rig = _Rig(READ_SIZE, READ_SIZE)
    parts = (BodyPart(READ_SIZE, rig.content, None), BodyPart(READ_SIZE, b"", BodyRef("gone", READ_SIZE, 0)))
    head = head_of(ObjectFacts(Version('"e"'), 2 * READ_SIZE, "", ()), READ_SIZE, 0.0)
    reader = StagingReader(rig.pending, lambda block, _: staged.append(block), NAME, head, parts)
    with pytest.raises(BodyDamaged):
        async for _ in reader.read():
            pass
    assert (staged, reader.is_at_end) == ([BlockId(NAME, head.generation, 0)], False)
