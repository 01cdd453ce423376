"""The reply to one entry of a batch: held until its turn, then an entry of the TAR; an error becomes a mark."""

import asyncio

import pytest

from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.batch.tar_entries import EntryMark
from forebay.request.batch.entry_reply import HELD_SIZE, EntryReply
from forebay.request.batch.tar_output import FULL_SIZE, TarOutput
from harness.batches import ReadEntry, entries_in
from harness.memory_exchange import MemoryReply

_DATE = (("Last-Modified", "Tue, 10 Nov 2026 10:00:00 GMT"),)


class Entry:
    """A reply to one entry, and where it goes."""

    def __init__(self, entry: BatchEntry) -> None:
        self.sent = MemoryReply()
        self.output = TarOutput(self.sent, (), SemaphoreShare(FairSemaphore(1 << 20), 4), None, shows_index=False)
        self.sizes: list[int] = []
        self.signals = 0
        self.reply = EntryReply(entry, 0, self.output, self.sizes.append, self._count)

    def _count(self) -> None:
        self.signals += 1

    async def tar(self) -> list[ReadEntry]:
        await self.output.finish()
        return entries_in(bytes(self.sent.body))


async def test_a_small_entry_ends_before_its_turn() -> None:
    entry = Entry(BatchEntry("a"))
    await entry.reply.start(200, _DATE, 3)
    assert entry.reply.accept(memoryview(b"abc")) == 3
    assert not entry.reply.is_blocked
    await entry.reply.finish()
    assert (entry.reply.state, entry.sizes, entry.signals, entry.reply.is_committed) == ("complete", [3], 1, False)
    entry.reply.give_turn()
    entry.reply.end()
    assert await entry.tar() == [ReadEntry("a", b"abc")]


async def test_a_large_entry_waits_for_its_turn() -> None:
    body, entry = bytes(range(256)) * 1024, Entry(BatchEntry("a"))
    await entry.reply.start(200, (), len(body))
    taken = entry.reply.accept(memoryview(body))
    assert (taken, entry.reply.is_blocked) == (HELD_SIZE, True)
    waiting = asyncio.gather(entry.reply.drain())
    await asyncio.sleep(0)
    assert (waiting.done(), entry.signals) == (False, 1)
    entry.reply.give_turn()
    await waiting
    while taken < len(body):
        count = entry.reply.accept(memoryview(body)[taken:])
        assert count <= FULL_SIZE
        taken += count
        if entry.reply.is_blocked:
            await entry.reply.drain()
    await entry.reply.finish()
    entry.reply.end()
    assert await entry.tar() == [ReadEntry("a", body)]


async def test_an_error_becomes_a_mark() -> None:
    entry = Entry(BatchEntry("a"))
    await entry.reply.start(404, (), 10)
    await entry.reply.write(b"<Error><Code>NoSuchKey</Code>")
    await entry.reply.write(b"<Message>a &lt; b</Message></Error>")
    await entry.reply.finish()
    assert entry.reply.state == "marked"
    assert entry.reply.mark == EntryMark(404, "NoSuchKey", "a < b")


async def test_an_error_without_a_document_is_a_mark_too() -> None:
    entry = Entry(BatchEntry("a"))
    await entry.reply.start(500, (), 0)
    await entry.reply.finish()
    assert entry.reply.mark == EntryMark(500, "InternalError", "")


async def test_no_length_and_another_range_are_refused() -> None:
    for each, status, length, code in (
        (BatchEntry("a"), 200, None, "NotImplemented"),
        (BatchEntry("a"), 206, 5, "NotImplemented"),
        (BatchEntry("a", 1, 2), 200, 5, "NotImplemented"),
    ):
        entry = Entry(each)
        with pytest.raises(S3Error, match=code):
            await entry.reply.start(status, (), length)
        assert not entry.reply.started


async def test_other_lengths_than_announced_break_the_entry() -> None:
    entry = Entry(BatchEntry("a"))
    await entry.reply.start(200, (), 2)
    with pytest.raises(ConnectionAbortedError):
        entry.reply.accept(memoryview(b"abc"))
    with pytest.raises(ConnectionAbortedError):
        await entry.reply.finish()
    entry.reply.abort()
    assert entry.reply.state == "broken"
    assert entry.signals == 1
