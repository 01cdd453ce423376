"""What becomes of a channel whose batch was sent, or begun to be sent, and whose answer nobody reads."""

from collections.abc import Callable

import pytest

from forebay_client.batch.batch_reads import BatchReads, BatchTransports
from forebay_client.client_stats import ClientStats
from forebay_client.shared_memory.channel import BatchFrame
from forebay_client.shared_memory.channel_batches import ChannelBatches
from forebay_client.shared_memory.channel_input import ChannelBroken


class FakeChannel:
    """A channel whose `send_batch` calls `sends`."""

    def __init__(self, sends: Callable[[], None]) -> None:
        self._sends = sends
        self.is_closed, self.used_at = False, 1.0

    def send_batch(self, _head: bytes, _document: bytes) -> None:
        self._sends()

    def receive_batch(self) -> BatchFrame:
        return BatchFrame(iter(()), b"", memoryview(b""), is_last=True)

    def close(self) -> None:
        self.is_closed = True


class FakePool:
    """A pool of one channel, and its transport."""

    name = "socket"

    def __init__(self, sends: Callable[[], None] = lambda: None) -> None:
        self.channel = FakeChannel(sends)
        self.released: list[object] = []
        self.dropped: list[object] = []

    def lease(self) -> FakeChannel:
        return self.channel

    def release(self, channel: object) -> None:
        self.released.append(channel)

    def drop(self, channel: object, _why: str = "") -> None:
        self.dropped.append(channel)

    def batches(self) -> ChannelBatches:
        return ChannelBatches(self)  # type: ignore[arg-type] # a fake

    def batch_head(self, _bucket: str, _document: bytes) -> bytes:
        return b"head"


class Interruption(Exception):
    """What the handler of a signal raises: PyTorch's of SIGCHLD, a scheduler's of SIGTERM."""


def interrupt() -> None:
    raise Interruption


def test_a_channel_is_released_once_its_answers_are_read() -> None:
    pool = FakePool()
    batches = pool.batches()
    number = batches.send(b"head", b"document")
    assert [frame.is_last for frame in batches.frames(number)] == [True]
    batches.close()
    assert (pool.released, pool.dropped, pool.channel.is_closed) == ([pool.channel], [], False)


def test_a_channel_with_an_answer_to_come_is_closed() -> None:
    """Its next user would take that answer for its own."""
    for sends in (lambda: None, interrupt):
        pool = FakePool(sends)
        batches = pool.batches()
        if sends is interrupt:
            with pytest.raises(Interruption):
                batches.send(b"head", b"document")
        else:
            batches.send(b"head", b"document")
        batches.close()
        assert (pool.released, pool.dropped, pool.channel.is_closed) == ([], [pool.channel], True)


def test_an_interrupted_call_closes_the_channel_of_its_first_batch() -> None:
    pool, reads = FakePool(interrupt), BatchReads(ClientStats())
    ways = BatchTransports(_nothing, _nothing, _nothing, 1, pool)  # type: ignore[arg-type] # fakes
    with pytest.raises(Interruption):
        list(reads.items(ways, "bucket", ["a", "b"], ordered=True))
    assert (pool.released, pool.dropped) == ([], [pool.channel])


def test_a_channel_that_broke_is_dropped_and_the_next_one_used() -> None:
    failures = [ChannelBroken("ended")]

    def fail_once() -> None:
        if failures:
            raise failures.pop()

    pool = FakePool(fail_once)
    batches = pool.batches()
    number = batches.send(b"head", b"document")
    assert pool.dropped == [pool.channel]
    assert len(list(batches.frames(number))) == 1


def _nothing(*_arguments: object) -> None:
    raise AssertionError("nothing is read over HTTP")
