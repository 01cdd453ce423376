"""A body is copied in steps of any size, from buffers and from files."""

import os
from pathlib import Path

import pytest

from forebay.server.shared_memory.body_copy import BodyCopy, read_extent
from forebay.storage.ssd.segments.segments import SegmentFile

CONTENT = bytes(range(256)) * 20


@pytest.fixture
def file(tmp_path: Path) -> SegmentFile:
    (tmp_path / "segment").write_bytes(b"head" + CONTENT)
    return SegmentFile(tmp_path / "segment", os.O_RDONLY)


@pytest.mark.parametrize("step", [1, 7, 1000, 5119, 5120, 1 << 20])
def test_buffers_are_copied_in_steps(step: int) -> None:
    view = memoryview(CONTENT)
    target = bytearray(len(CONTENT))
    copy = BodyCopy(memoryview(target), (view[:100], view[100:4000], view[4000:]))
    steps = 1
    while not copy.advance(step):
        steps += 1
    assert target == CONTENT
    assert steps == -(-len(CONTENT) // step)


@pytest.mark.parametrize("step", [999, 1 << 20])
def test_file_extents_are_copied_in_steps(file: SegmentFile, step: int) -> None:
    target = bytearray(len(CONTENT))
    copy = BodyCopy(memoryview(target), ((file, 4, 2004, None), (file, 2004, 4 + len(CONTENT), None)))
    while not copy.advance(step):
        pass
    assert target == CONTENT


def test_a_file_that_is_shorter_than_it_was_is_an_error(file: SegmentFile) -> None:
    beyond = 4 + len(CONTENT) + 10
    with pytest.raises(OSError, match="shorter"):
        BodyCopy(memoryview(bytearray(beyond - 4)), ((file, 4, beyond, None),)).advance(1 << 20)
    with pytest.raises(OSError, match="shorter"):
        read_extent((file, 4, beyond, None))
    assert read_extent((file, 4, 4 + len(CONTENT), None)) == CONTENT
