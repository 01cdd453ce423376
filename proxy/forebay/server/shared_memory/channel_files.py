"""Bodies and entries of batches that a client reads from files of the cache: of memory, by the numbers that both sides
keep; of the SSD, by the segments' descriptors, each time.

Server and client have the same list of a channel's memory files, so a hit in a file that the client has costs no
descriptor, and no other check of the file's content. The least recently used file is dropped.
"""

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Literal, Self, cast

from forebay.policy.grants import Principal, reads_everything
from forebay.protocol.channel_frames import (
    DROPPED,
    ENTRIES,
    FRAME,
    FRAME_OF_PIECE,
    IN_FILES,
    MAX_FILES,
    MAX_PIECES,
    MEMORY,
    PIECE,
    SEGMENT,
    WITH_DESCRIPTOR,
)
from forebay.request.admission import GatewayPolicy
from forebay.server.fastpath.lane_answer import FileExtent
from forebay.server.shared_memory.channel_writer import ChannelServices, ChannelWriter
from forebay.server.shared_memory.passed_files import may_have
from forebay.storage.memory.shared_blocks import Arena, SharedBlock
from forebay.storage.ssd.segments.segments import SegmentFile

MAX_FILE_NUMBER: Final = 1 << 16


class BodyInFiles:
    """The frame and the descriptors that are sent in place of a body. A context manager, which closes the
    descriptors."""

    def __init__(self, form: Literal["memory", "segment"], frame: bytes, descriptors: Iterable[int]) -> None:
        self.form = form
        self.frame = frame
        self.descriptors = list(descriptors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        _close(self.descriptors)


class ChannelFiles:
    """The files of the cache that one client gets through a channel."""

    def __init__(self, services: ChannelServices, writer: ChannelWriter, max_number: int = MAX_FILE_NUMBER) -> None:
        """`max_number`: numbers of memory files, more than MAX_FILES."""
        self._max_number = max_number
        self._memory, self._policy_now, self._writer = services.memory, services.policy, writer
        self._policy: GatewayPolicy | None = None
        """The policy under which a file was passed first."""
        self._numbers = OrderedDict[Arena, int]()
        """The numbers of the memory files that the client has, the latest used last."""
        self._next_number = 0

    def __len__(self) -> int:
        """Returns the number of memory files that the client has."""
        return len(self._numbers)

    def clear(self) -> None:
        """Forgets all files: the client has none any more."""
        self._numbers.clear()

    @property
    def policy(self) -> GatewayPolicy:
        """Returns the policy in force."""
        return self._policy_now()

    @property
    def is_outdated(self) -> bool:
        """Whether the policy has changed since a file was passed: a key may have been revoked."""
        return self._policy is not None and self._policy is not self._policy_now()

    def send_body(self, reader: Principal, head: bytes, extents: Sequence[FileExtent], size: int) -> bool:
        """Sends descriptors of a body that `reader` may read in place of its bytes; whether that was possible. The
        client has not all of the files (`known_frame`)."""
        body = self._new_body(lambda: self._body(reader, head, extents, size))
        if body is None:
            return False
        self._memory.count(body.form)
        return True

    def send_entry(self, reader: Principal, entry: bytes, extents: Sequence[FileExtent], size: int) -> bool:
        """Sends an entry of a batch, which is in memory files that the client has not all. Returns whether it did."""
        return self._new_body(lambda: self._memory_body(reader, entry, extents, size, ENTRIES, IN_FILES)) is not None

    def _new_body(self, make: Callable[[], "BodyInFiles | None"]) -> "BodyInFiles | None":
        """Sends a frame with descriptors; None: that was not possible."""
        if not self._writer.can_send:
            return None
        try:
            body = make()
        except OSError:
            return None  # no descriptor is free here
        if body is None:
            return None
        with body:
            self._writer.send(body.frame, body.descriptors)
        if self._policy is None and self._numbers:
            self._policy = self._policy_now()
        return body

    def known_entry(self, entry: bytes, extents: Sequence[FileExtent], size: int) -> bytes | None:
        """Returns the frame of an entry of a batch in memory files that the client has; None: it has not all of
        them."""
        return self.known_frame(entry, extents, size, ENTRIES, IN_FILES)

    def known_frame(
        self, head: bytes, extents: Sequence[FileExtent], size: int, kind: int = MEMORY, flags: int = 0
    ) -> bytes | None:
        """Returns a body in memory files that the client has, as it is written; None: it has not all of them."""
        numbers = self._numbers
        if len(extents) == 1:  # as most bodies are
            block, start, stop, _ = extents[0]
            if not isinstance(block, SharedBlock):
                return None
            number = numbers.get(block.arena)
            if number is None:
                return None
            numbers.move_to_end(block.arena)
            return FRAME_OF_PIECE.pack(kind, flags, 1, len(head), 0, size, number, 0, stop - start, start) + head
        pieces = []
        for block, start, stop, _ in extents:
            number = numbers.get(block.arena) if isinstance(block, SharedBlock) else None
            if number is None:
                return None
            pieces.append(PIECE.pack(number, 0, stop - start, start))
        if len(pieces) > MAX_PIECES:
            return None
        for block, *_ in extents:
            numbers.move_to_end(cast("SharedBlock", block).arena)
        return b"".join((FRAME.pack(kind, flags, len(pieces), len(head), 0, size), *pieces, head))

    def _body(self, reader: Principal, head: bytes, extents: Sequence[FileExtent], size: int) -> BodyInFiles | None:
        """Returns a body of `size` bytes that `reader` may read, and the head of its response, to be sent now; None if
        it can't be sent in this way. Raises OSError where no descriptor is free."""
        if all(isinstance(extent[0], SharedBlock) for extent in extents):
            return self._memory_body(reader, head, extents, size)
        if len(extents) > MAX_PIECES:
            return None
        if all(isinstance(extent[0], SegmentFile) for extent in extents) and reads_everything(reader):
            return _segment_body(head, extents, size)
        return None

    def _memory_body(
        self,
        reader: Principal,
        head: bytes,
        extents: Sequence[FileExtent],
        size: int,
        kind: int = MEMORY,
        flags: int = 0,
    ) -> BodyInFiles | None:
        if len(extents) > MAX_PIECES:
            return None
        arenas = [cast("SharedBlock", extent[0]).arena for extent in extents]
        descriptors: dict[Arena, int] = {}
        try:
            for arena in arenas:
                if arena not in self._numbers and arena not in descriptors:
                    passed = self._memory.share(arena) if may_have(reader, arena) else None
                    if passed is None:
                        _close(descriptors.values())
                        return None
                    descriptors[arena] = passed.open_reader()
        except OSError:
            _close(descriptors.values())
            raise
        pieces = []
        for arena, (_, start, stop, _) in zip(arenas, extents, strict=True):
            number = self._numbers.pop(arena, None)
            flag = WITH_DESCRIPTOR if number is None else 0
            self._numbers[arena] = number = self._free_number() if number is None else number
            pieces.append(PIECE.pack(number, flag, stop - start, start))
        flags |= WITH_DESCRIPTOR if descriptors else 0
        frame = FRAME.pack(kind, flags, len(pieces), len(head), 0, size)
        return BodyInFiles("memory", b"".join((*self._drop_frames(), frame, *pieces, head)), descriptors.values())

    def _free_number(self) -> int:
        """Returns a number that none of the client's files has."""
        while True:
            self._next_number = (self._next_number + 1) % self._max_number
            if self._next_number not in self._numbers.values():
                return self._next_number

    def _drop_frames(self) -> list[bytes]:
        """Returns frames that make the client unmap the least recently used files."""
        frames = []
        while len(self._numbers) > MAX_FILES:
            arena = next(iter(self._numbers))
            frames.append(FRAME.pack(DROPPED, 0, 0, 0, self._numbers.pop(arena), 0))
        return frames


def _segment_body(head: bytes, extents: Sequence[FileExtent], size: int) -> BodyInFiles:
    pieces: list[bytes] = []
    descriptors: dict[int, int] = {}
    try:
        for file, start, stop, _ in extents:
            if file.fd not in descriptors:
                # A description of its own: the client may change flags and locks of what it gets.
                descriptors[file.fd] = os.open(f"/proc/self/fd/{file.fd}", os.O_RDONLY | os.O_CLOEXEC)
            pieces.append(PIECE.pack(list(descriptors).index(file.fd), 0, stop - start, start))
    except OSError:
        _close(descriptors.values())
        raise
    frame = FRAME.pack(SEGMENT, WITH_DESCRIPTOR, len(pieces), len(head), 0, size)
    return BodyInFiles("segment", b"".join((frame, *pieces, head)), descriptors.values())


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
