"""Files of the cache that a channel passes: how they are opened, and by which numbers its client knows them."""

import fcntl
import os
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from forebay.policy.access import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access
from forebay.server.shared_memory.channel_files import MAX_CHANNEL_FILES, ChannelFiles
from forebay.server.shared_memory.channel_writer import ChannelServices, ChannelWriter
from forebay.storage.memory.shared_blocks import Arena, SharedBlock
from forebay.storage.ssd.segments import SegmentFile

NUMBERS = MAX_CHANNEL_FILES + 50
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


def files_of(writer: Writer, policies: Iterator[object] | None = None) -> ChannelFiles:
    passed = SimpleNamespace(open_reader=lambda: os.open(os.devnull, os.O_RDONLY))
    memory = SimpleNamespace(share=lambda _arena: passed, count=lambda _form: None)
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
    memory = Block(Arena(4096, 0, deque()))
    memory.arena.end, memory.fd = 4096, segment.fd
    assert not files_of(writer).send_body(READER, b"head", [(segment, 0, 10, None), (memory, 0, 10, None)], 20)
    assert writer.modes == []


def test_a_channel_is_outdated_by_a_policy_after_its_first_file() -> None:
    first, second = object(), object()
    files = files_of(Writer(), iter([first, first, second, second]))
    assert not files.is_outdated, "no file was passed"
    block = Block(Arena(4096, 0, deque()))
    block.arena.end = 4096
    assert files.send_entry(READER, b"", [(block, 0, 10, None)], 10)
    assert not files.is_outdated
    assert files.is_outdated


def test_nothing_is_passed_while_the_client_takes_nothing(tmp_path: Path) -> None:
    writer = Writer()
    writer.can_send = False
    segment = SegmentFile(tmp_path / "segment", os.O_RDWR | os.O_CREAT)
    assert not files_of(writer).send_body(READER, b"head", [(segment, 0, 10, None)], 10)
    assert writer.modes == []


def test_no_two_files_of_a_client_have_one_number() -> None:
    """Numbers come round again; a file that is in use still has its own."""
    files, kept = files_of(Writer()), Block(Arena(4096, 0, deque()))
    kept.arena.end = 4096
    assert files.send_entry(READER, b"", [(kept, 0, 10, None)], 10)
    for _ in range(NUMBERS):
        other = Block(Arena(4096, 0, deque()))
        other.arena.end = 4096
        assert files.send_entry(READER, b"", [(other, 0, 10, None)], 10)
        assert files.known_entry(b"", [(kept, 0, 10, None)], 10) is not None  # a use
    numbers = list(files._numbers.values())  # noqa: SLF001 # what the client has
    assert len(set(numbers)) == len(numbers) == MAX_CHANNEL_FILES
