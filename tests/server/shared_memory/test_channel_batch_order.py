"""The answer to a batch: entries in files, runs of others and marks come in the order in which they were put."""

from types import SimpleNamespace
from typing import Any

import pytest

from forebay.core.request_record import RequestRecord
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark
from forebay.protocol.channel_frames import ENTRIES, ENTRY, FRAME, IN_FILES, INSIDE
from forebay.server.shared_memory.channel_batch import ChannelBatch

NOBODY: Any = None
SIZE = 1000
LARGE = 64 << 10


class Channel:
    """A client without a ring."""

    def __init__(self) -> None:
        self.written, self.writing_paused = b"", False

    def write(self, *pieces: bytes) -> None:
        self.written += b"".join(pieces)

    def allocate(self, _length: int) -> None:
        return None

    def count(self, _form: str) -> None:
        pass

    @property
    def indices(self) -> list[int]:
        """Of the entries that were written."""
        found, at, written = list[int](), 0, self.written
        while at < len(written):
            _, flags, count, head, _, length = FRAME.unpack_from(written, at)
            at += FRAME.size
            found += [ENTRY.unpack_from(written, at + number * ENTRY.size)[0] for number in range(count)]
            at += head + (length if flags & INSIDE else 0)
        return found


class Files:
    """Files of memory, of which the client has those that are `known`; the others it is sent."""

    def __init__(self, channel: Channel) -> None:
        self.policy, self._channel = object(), channel
        self.known = True

    def known_entry(self, entry: bytes, _extents: object, size: int) -> bytes | None:
        return FRAME.pack(ENTRIES, IN_FILES, 1, len(entry), 0, size) + entry if self.known else None

    def send_entry(self, _reader: object, entry: bytes, _extents: object, size: int) -> bool:
        self._channel.write(FRAME.pack(ENTRIES, IN_FILES, 1, len(entry), 0, size), entry)
        return True


class Answer:
    """A batch, its channel and its files."""

    def __init__(self) -> None:
        self.channel = Channel()
        self.files = Files(self.channel)
        record = RequestRecord("POST", 0.0, "ID")
        self.batch = ChannelBatch(self.channel, self.files, record)  # type: ignore[arg-type] # fakes
        self.put = 0

    def put_bytes(self) -> None:
        self.batch.put(self._next(), BatchEntry("k"), "", memoryview(bytes(SIZE)))

    def put_in_files(self, *, known: bool) -> bool:
        self.files.known = known
        found: Any = SimpleNamespace(extents=(), span=SimpleNamespace(length=SIZE))
        return self.batch.put_in_files(self._next(), BatchEntry("k"), found, NOBODY)

    def put_large(self) -> None:
        self.batch.begin(self._next(), BatchEntry("k"), "", 2 * LARGE)
        for _ in range(2):
            self.batch.append(bytes(LARGE))
        self.batch.end()

    def mark(self) -> None:
        self.batch.mark(self._next(), BatchEntry("k"), EntryMark(404, "NoSuchKey", "There is none."))

    def put_known(self) -> None:
        assert self.put_in_files(known=True)

    def put_sent(self) -> None:
        assert self.put_in_files(known=False)

    def _next(self) -> int:
        self.put += 1
        return self.put - 1


async def test_entries_come_in_the_order_in_which_they_were_put() -> None:
    answer = Answer()
    ways = [answer.put_bytes, answer.put_large, answer.mark, answer.put_known, answer.put_sent]
    for first in ways:  # each behind each
        for second in ways:
            first()
            second()
    answer.put_known()
    await answer.batch.finish()
    assert answer.channel.indices == list(range(answer.put))


@pytest.mark.parametrize("way", ["put_large", "put_sent"])
def test_an_answer_has_begun_with_its_first_frame(way: str) -> None:
    """From there on it is not declined, but ends with the channel."""
    answer = Answer()
    assert not answer.batch.has_started
    getattr(answer, way)()
    assert answer.batch.has_started


def test_no_descriptor_is_sent_under_another_policy() -> None:
    """The reader was admitted under the one before: its key may have been revoked."""
    answer = Answer()
    answer.files.policy = object()
    assert not answer.put_in_files(known=True)
    assert not answer.put_in_files(known=False)
    assert answer.channel.written == b""


@pytest.mark.parametrize("way", ["mark", "in files", "paused"])
def test_what_waits_is_written_in_time(way: str) -> None:
    answer = Answer()
    answer.channel.writing_paused = way == "paused"
    count = 0
    while not answer.batch.is_full:
        (answer.mark if way == "mark" else answer.put_known)()
        count += 1
    assert count == (0 if way == "paused" else 16)
