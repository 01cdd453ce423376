"""Views of mapped memory files: read-only, and the slot goes back with the last thing that is made of one."""

import gc
import mmap
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.server.shared_memory.sealed_memory import SealedMemory
from forebay_client.shared_memory.mapped_memory import MappedMemory, MappingError

PAGE = mmap.PAGESIZE
SIZE = 64 * PAGE


@pytest.fixture
def memory() -> Iterator[SealedMemory]:
    made = SealedMemory(SIZE)
    for page in range(SIZE // PAGE):
        made.view[page * PAGE : (page + 1) * PAGE] = bytes([page]) * PAGE
    yield made
    made.close()


def mapped_of(memory: SealedMemory) -> MappedMemory:
    fd = memory.file.open_reader()
    try:
        return MappedMemory.of_file(fd)
    finally:
        os.close(fd)


def test_a_view_shows_the_bytes_and_cannot_change_them(memory: SealedMemory) -> None:
    view = mapped_of(memory).view(3 * PAGE, 100)
    assert bytes(view) == bytes([3]) * 100
    assert view.readonly
    with pytest.raises(TypeError):
        view[0] = 1


def test_memory_without_address_space_is_not_mapped() -> None:
    with pytest.raises(MappingError):
        MappedMemory(1 << 60)


def test_a_slot_goes_back_with_the_last_derived_view(memory: SealedMemory) -> None:
    released: deque[int] = deque()
    mapped = mapped_of(memory)
    view = mapped.slot(0, PAGE, released, 5)
    derived = memoryview(view[100:200])[10:].cast("b")
    del view
    assert not released
    assert derived[0] == 0
    del derived
    assert list(released) == [5]


def test_an_array_of_numpy_keeps_its_slot(memory: SealedMemory) -> None:
    numpy = pytest.importorskip("numpy")
    released: deque[int] = deque()
    array = numpy.frombuffer(mapped_of(memory).slot(2 * PAGE, PAGE, released, 1), dtype=numpy.int16)
    derived = array[5:50].reshape(3, 15)
    del array
    gc.collect()
    assert not released
    assert (derived == 0x0202).all()
    del derived
    assert list(released) == [1]


def test_views_keep_the_mapping_and_nothing_else_does(memory: SealedMemory) -> None:
    mapped = mapped_of(memory)
    view = mapped.view(0, PAGE)
    del mapped
    assert memory.file.is_held()
    assert bytes(view) == bytes(PAGE)
    del view
    assert not memory.file.is_held()


def test_pieces_of_files_are_one_view(memory: SealedMemory) -> None:
    first, second = mapped_of(memory), mapped_of(memory)
    pieces = [(first, 7 * PAGE, 2 * PAGE), (second, PAGE, PAGE), (first, 9 * PAGE, 10)]
    view = MappedMemory.of_pieces(pieces).view(0, 3 * PAGE + 10)
    expected = bytes([7]) * PAGE + bytes([8]) * PAGE + bytes([1]) * PAGE + bytes([9]) * 10
    assert bytes(view) == expected
    del first, second, pieces
    assert bytes(view) == expected
    del view
    assert not memory.file.is_held()


def test_a_file_that_can_shrink_is_not_mapped() -> None:
    fd = os.memfd_create("unsealed", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, SIZE)
    with pytest.raises(MappingError, match="change its size"):
        MappedMemory.of_file(fd)
    os.close(fd)


def test_a_file_on_disk_is_not_mapped() -> None:
    with Path(__file__).open("rb") as file, pytest.raises(MappingError):
        MappedMemory.of_file(file.fileno())
