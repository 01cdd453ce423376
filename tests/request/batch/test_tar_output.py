"""The output of a batch: joined, charged, and holding nothing of what it was given."""

import pytest

from forebay.core.fair_semaphore import FairSemaphore, SemaphoreShare
from forebay.request.batch.tar_output import FULL_SIZE, TarOutput
from harness.memory_exchange import DisconnectedReply, MemoryReply


async def test_pieces_are_joined_and_the_head_leaves_with_the_first() -> None:
    reply, budget = MemoryReply(), FairSemaphore(1 << 20)
    output = TarOutput(reply, (("a", "b"),), SemaphoreShare(budget, 4), shows_index=False)
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
    output = TarOutput(DisconnectedReply(), (), SemaphoreShare(budget, 4), shows_index=False)
    output.append(b"one")
    with pytest.raises(ConnectionResetError):
        await output.flush()
    assert budget.in_use == 0
