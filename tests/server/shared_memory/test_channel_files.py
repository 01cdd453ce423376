"""Files of the cache that a channel passes: how they are opened, and by which numbers its client knows them."""

import errno
import fcntl
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.channel_frames import MAX_FILES, MAX_PIECES
from forebay.protocol.operations import Access
from forebay.server.shared_memory.channel_files import ChannelFiles
from forebay.server.shared_memory.channel_writer import ChannelServices, ChannelWriter
from forebay.storage.memory.shared_blocks import Arena, SharedBlock
from forebay.storage.ssd.segments.segments import SegmentFile

NUMBERS = MAX_FILES + 50
READER = Principal("reader", (Grant(Pattern("**"), frozenset({Access.READ})),))


class Block(SharedBlock):
    """A block at the beginning of an arena."""

    __slots__ = ("arena", "fd", "offset")

    def __init__(self, arena: Arena) -> None:
        self.arena, self.fd, self.offset = arena, -1, 0


class Writer:
    """Stands in for the channel's writer: it keeps how the descriptors that it sends are open."""

    can_send = True

    def __init__(self) -> None:
        self.modes: list[int] = []

    def send(self, _frame: bytes, descriptors: Iterable[int]) -> None:
        self.modes += [fcntl.fcntl(each, fcntl.F_GETFL) & os.O_ACCMODE for each in descriptors]


def open_null() -> int:
    return os.open(os.devnull, os.O_RDONLY)


def descriptors() -> int:
    """How many this process has."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def memory_block() -> Block:
    """A block in an arena of its own, which is full."""
    block = Block(Arena(4096, 0, deque()))
    block.arena.end = 4096
    return block


def files_of(
    writer: Writer,
    policies: Iterator[object] | None = None,
    open_reader: Callable[[], int] = open_null,
    share: Callable[[Arena], object] | None = None,
) -> ChannelFiles:
    passed = SimpleNamespace(open_reader=open_reader)
    memory = SimpleNamespace(share=share or (lambda _arena: passed), count=lambda _form: None)
    policy = object if policies is None else lambda: next(policies)
    services = cast("ChannelServices", SimpleNamespace(memory=memory, policy=policy))
    return ChannelFiles(services, cast("ChannelWriter", writer), NUMBERS)


def test_a_segment_is_open_for_reading_alone(tmp_path: Path) -> None:
    """It has no seals: a client that could write to it would write to the cache."""
    writer = Writer()
    segment = SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    assert files_of(writer).send_body(READER, b"head", [(segment, 0, 10, None)], 10)
    assert writer.modes == [os.O_RDONLY]


def test_a_segment_goes_only_to_who_may_read_all_that_is_in_it(tmp_path: Path) -> None:
    """Nor does one beside memory, whose frame would number them alike."""
    writer = Writer()
    segment = SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    some = Principal("some", (Grant(Pattern("bucket/**"), frozenset(Access)),))
    assert not files_of(writer).send_body(some, b"head", [(segment, 0, 10, None)], 10)
    memory = memory_block()
    memory.fd = segment.fd
    assert not files_of(writer).send_body(READER, b"head", [(segment, 0, 10, None), (memory, 0, 10, None)], 20)
    assert writer.modes == []


def test_a_channel_is_outdated_by_a_policy_after_its_first_file() -> None:
    first, second = object(), object()
    files = files_of(Writer(), iter([first, first, second, second]))
    assert not files.is_outdated, "no file was passed"
    block = memory_block()
    assert files.send_entry(READER, b"", [(block, 0, 10, None)], 10)
    assert not files.is_outdated
    assert files.is_outdated


def test_files_passed_later_do_not_renew_the_policy() -> None:
    """A revoked key has the first one still."""
    first, second = object(), object()
    files = files_of(Writer(), iter([first, second, second]))
    for _ in range(2):
        assert files.send_entry(READER, b"", [(memory_block(), 0, 10, None)], 10)
    assert files.is_outdated


def test_no_descriptor_is_left_where_one_of_two_has_no_file() -> None:
    shares = iter([SimpleNamespace(open_reader=open_null), None])
    files, before = files_of(Writer(), share=lambda _arena: next(shares)), descriptors()
    extents = [(memory_block(), 0, 10, None), (memory_block(), 0, 10, None)]
    assert not files.send_entry(READER, b"", extents, 20)
    assert (descriptors(), len(files)) == (before, 0)


def test_nothing_is_passed_while_the_client_takes_nothing(tmp_path: Path) -> None:
    writer = Writer()
    writer.can_send = False
    segment = SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    assert not files_of(writer).send_body(READER, b"head", [(segment, 0, 10, None)], 10)
    assert writer.modes == []


def test_no_two_files_of_a_client_have_one_number() -> None:
    """Numbers come round again; a file that is in use still has its own."""
    files, kept = files_of(Writer()), memory_block()
    assert files.send_entry(READER, b"", [(kept, 0, 10, None)], 10)
    for _ in range(NUMBERS):
        assert files.send_entry(READER, b"", [(memory_block(), 0, 10, None)], 10)
        assert files.known_entry(b"", [(kept, 0, 10, None)], 10) is not None  # a use
    numbers = list(files._numbers.values())  # noqa: SLF001 # what the client has
    assert len(set(numbers)) == len(numbers) == MAX_FILES


@pytest.mark.parametrize("pieces", [MAX_PIECES, MAX_PIECES + 1])
def test_no_body_has_more_pieces_than_a_client_takes(tmp_path: Path, pieces: int) -> None:
    """A client has room for the descriptors of so many: the kernel drops the rest."""
    memory, segment = memory_block(), SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    taken = pieces == MAX_PIECES
    for file in (memory, segment):
        assert files_of(Writer()).send_body(READER, b"", [(file, 0, 10, None)] * pieces, 10 * pieces) == taken
    files = files_of(Writer())
    assert files.send_entry(READER, b"", [(memory, 0, 10, None)], 10)
    known = files.known_frame(b"", [(memory, 0, 10, None)] * pieces, 10 * pieces)
    assert (known is not None) == taken


def test_without_a_free_descriptor_none_is_sent_or_kept(tmp_path: Path) -> None:
    """A frame with descriptors that were closed would pass other files of this process."""
    opened: list[int] = []

    def open_once() -> int:
        if opened:
            raise OSError(errno.EMFILE, "too many open files")
        opened.append(open_null())
        return opened[0]

    writer, gone = Writer(), SegmentFile(tmp_path / "gone", os.O_RDWR | os.O_CREAT)
    segment = SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    os.close(gone.fd)
    gone.fd = -1
    before = descriptors()
    files = files_of(writer, open_reader=open_once)
    assert not files.send_body(READER, b"", [(memory_block(), 0, 10, None), (memory_block(), 0, 10, None)], 20)
    assert not files.send_body(READER, b"", [(segment, 0, 10, None), (gone, 0, 10, None)], 20)
    assert (writer.modes, len(opened), descriptors()) == ([], 1, before)
