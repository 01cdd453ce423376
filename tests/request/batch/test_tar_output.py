"""The output of a batch: joined, charged, and holding nothing of what it was given once that was written."""

from collections.abc import Sequence

import pytest

from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.exchange import BodyPart
from forebay.request.batch.tar_output import COPIED_SIZE, FULL_SIZE, UNCHARGED_SIZE, TarOutput
from harness.memory_exchange import DisconnectedReply, MemoryReply


async def test_pieces_are_joined_and_the_head_leaves_with_the_first() -> None:
    reply, budget = MemoryReply(), FairSemaphore(1 << 20)
    output = TarOutput(reply, (("a", "b"),), SemaphoreShare(budget, 4), None, shows_index=False)
    await output.flush()
    assert not output.has_started
    output.append(b"one ")
    output.append(memoryview(b"two"))
    states = [output.is_full]
    await output.flush()
    assert (reply.status, bytes(reply.body), reply.headers["a"], reply.length) == (200, b"one two", "b", None)
    output.append(bytes(FULL_SIZE))
    states.append(output.is_full)
    await output.finish()
    assert states == [False, True]
    assert reply.finished
    assert budget.in_use == 0


async def test_a_client_that_left_leaves_nothing_charged() -> None:
    budget = FairSemaphore(1 << 20)
    output = TarOutput(DisconnectedReply(), (), SemaphoreShare(budget, 4), None, shows_index=False)
    output.append(b"one")
    with pytest.raises(ConnectionResetError):
        await output.flush()
    assert budget.in_use == 0


async def test_what_is_gathered_of_an_entry_that_trickles_is_charged() -> None:
    """One batch has room for it; the next writes what little it has."""
    budget = FairSemaphore(FULL_SIZE)
    first, second = (TarOutput(MemoryReply(), (), SemaphoreShare(budget, 1), None, shows_index=False) for _ in range(2))
    for output in (first, second):
        output.append(bytes(UNCHARGED_SIZE))
        assert (output.is_full, budget.in_use) == (False, 0)
    first.append(b"more")
    assert (first.is_full, budget.in_use) == (False, FULL_SIZE)
    second.append(b"more")
    assert second.is_full
    await first.flush()
    assert budget.in_use == 0
    second.append(b"and more")
    assert (second.is_full, budget.in_use) == (False, FULL_SIZE)
    second.close()  # as when the entry breaks off
    assert budget.in_use == 0


class Chunks:
    """Takes chunks. Implements forebay.protocol.exchange.ChunkWriter."""

    def __init__(self, budget: FairSemaphore, *, has_files: bool = True) -> None:
        self._budget, self.has_files = budget, has_files
        self.written = list[tuple[Sequence[BodyPart], int, int]]()
        """The parts of each, its size, and what was charged meanwhile."""

    async def write(self, parts: Sequence[BodyPart], size: int) -> None:
        self.written.append((parts, size, self._budget.in_use))


async def test_large_entries_are_written_from_where_they_are() -> None:
    reply, budget = MemoryReply(), FairSemaphore(4 << 20)
    chunks = Chunks(budget)
    output = TarOutput(reply, (), SemaphoreShare(budget, 1), chunks, shows_index=False)
    small, large = memoryview(bytes(COPIED_SIZE)), memoryview(bytes(COPIED_SIZE + 1))
    for content in (small, large, small):
        output.put(0, BatchEntry("key"), "", content)
    await output.flush()
    [(parts, size, charged)] = chunks.written
    assert [part is large for part in parts] == [False, True, False]
    assert size == charged == sum(len(part) for part in parts if isinstance(part, memoryview))
    assert size % 512 == 0
    assert (reply.started, bytes(reply.body), budget.in_use) == (True, b"", 0)
    await output.finish()
    assert reply.finished
    assert chunks.written[-1][1] == 1024


@pytest.mark.parametrize("has_files", [True, False])
def test_files_are_for_who_can_send_them(*, has_files: bool) -> None:
    budget = FairSemaphore(1)
    chunks = Chunks(budget, has_files=has_files)
    output = TarOutput(MemoryReply(), (), SemaphoreShare(budget, 1), chunks, shows_index=False)
    assert (output.least_in_file is not None) == has_files
