"""The reply of a channel: it writes to no more of the ring than its slot, whatever a body turns out to be."""

from collections.abc import Iterator
from typing import cast

import pytest

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.request_record import RequestRecord
from forebay.server.fastpath.direct_reply import MAX_JOINED_SIZE
from forebay.server.shared_memory.channel_reply import ChannelReply, RingConnection
from forebay.server.shared_memory.client_ring import STEP, ClientRing

SIZE = MAX_JOINED_SIZE + 1
NEIGHBOUR = b"neighbour"


class Connection:
    """A channel of one ring, and its transport. `announced`: the bodies in slots that its client was told of."""

    def __init__(self) -> None:
        self.ring = ClientRing(STEP, FairSemaphore(STEP))
        self.transport = self
        self.aborted = False
        self.announced: list[tuple[int, int]] = []

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def allocate(self, length: int) -> tuple[ClientRing, int]:
        return self.ring, self.ring.allocate(length)

    def announce(self, _head: bytes, position: int, length: int) -> None:
        self.announced.append((position, length))


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection()
    yield made
    made.ring.close()


def reply_on(connection: Connection) -> ChannelReply:
    record = RequestRecord("GET", 0.0, "ID")
    return ChannelReply(cast("RingConnection", connection), record, lambda: False, (), is_head=False)


@pytest.mark.parametrize("excess", [0, 1])
async def test_a_longer_body_does_not_reach_the_next_slot(connection: Connection, excess: int) -> None:
    reply = reply_on(connection)
    await reply.start(200, (), SIZE)
    behind = connection.ring.allocate(SIZE)
    connection.ring.copy(behind, (memoryview(NEIGHBOUR),))
    await reply.write(b"a" * (SIZE - 1))
    if excess:
        with pytest.raises(ConnectionAbortedError):
            await reply.write(b"b" * (behind + len(NEIGHBOUR)))
    else:
        await reply.write(b"b")
        await reply.finish()
    assert connection.announced == ([] if excess else [(0, SIZE)])
    assert connection.ring.memory.view[behind : behind + len(NEIGHBOUR)] == NEIGHBOUR


async def test_a_body_of_unknown_length_breaks_the_channel(connection: Connection) -> None:
    with pytest.raises(ConnectionAbortedError):
        await reply_on(connection).start(200, (), None)
    assert connection.aborted
