"""What becomes of a channel whose batch was sent, or begun to be sent, and whose answer nobody reads."""

from collections.abc import Callable
from typing import Final

import pytest

from forebay_client.batch.batch_reads import BatchReads, BatchTransports
from forebay_client.client_stats import ClientStats
from forebay_client.shared_memory.channel import BatchFrame, ReadDeclined
from forebay_client.shared_memory.channel_batches import ChannelBatches
from forebay_client.shared_memory.channel_input import ChannelBroken
from forebay_client.shared_memory.channel_pool import ChannelUnavailable
from forebay_client.transport.object_request import TransportFallback


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


class ScriptedChannel:
    """A channel that answers its batches with frames, or exceptions, one after the other."""

    def __init__(
        self, *answers: BatchFrame | Exception, used_at: float = 1.0, refuses: Exception | None = None
    ) -> None:
        self._answers, self.refuses = list(answers), refuses
        self.used_at, self.is_closed = used_at, False
        self.sent: list[bytes] = []

    def send_batch(self, _head: bytes, document: bytes) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.sent.append(document)

    def receive_batch(self) -> BatchFrame:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.is_closed = True


class ScriptedPool:
    """A pool that leases these channels, one after the other."""

    def __init__(self, *channels: ScriptedChannel) -> None:
        self._channels = list(channels)
        self.released: list[object] = []
        self.dropped: list[tuple[object, str]] = []
        self.batches = ChannelBatches(self)  # type: ignore[arg-type] # a fake

    def lease(self) -> ScriptedChannel:
        if not self._channels:
            raise ChannelUnavailable("busy")
        return self._channels.pop(0)

    def release(self, channel: object) -> None:
        self.released.append(channel)

    def drop(self, channel: object, why: str = "") -> None:
        self.dropped.append((channel, why))

    def texts(self, number: int) -> list[bytes]:
        """The answer to a batch, as it was read by now where it fails."""
        return [frame.texts for frame in self.batches.frames(number)]


def frame(text: bytes, *, is_last: bool = True) -> BatchFrame:
    return BatchFrame(iter(()), text, memoryview(b""), is_last)


ENDED: Final = ChannelBroken("ended")


def test_batches_of_an_idle_channel_that_ended_are_repeated() -> None:
    first, second = ScriptedChannel(ENDED), ScriptedChannel(frame(b"1"), frame(b"2"))
    pool = ScriptedPool(first, second)
    one, two = pool.batches.send(b"", b"one"), pool.batches.send(b"", b"two")
    assert (pool.texts(one), pool.texts(two)) == ([b"1"], [b"2"])
    assert (first.sent, second.sent) == ([b"one", b"two"], [b"one", b"two"])
    pool.batches.close()
    assert (pool.dropped, pool.released) == ([(first, "ended")], [second])


@pytest.mark.parametrize(
    ("answers", "used_at", "reason"),
    [
        ((ENDED,), 0.0, "ended"),
        ((ChannelBroken("broken"),), 1.0, "broken"),
        ((frame(b"1", is_last=False), ENDED), 1.0, "ended"),
        ((frame(b"1", is_last=False), ReadDeclined()), 1.0, "garbage"),
    ],
    ids=["a new channel", "in an answer", "a begun answer", "declined in its middle"],
)
def test_a_failure_is_that_of_all_batches(
    answers: tuple[BatchFrame | Exception, ...], used_at: float, reason: str
) -> None:
    """None of them is repeated, and no later channel answers for them."""
    channel, later = ScriptedChannel(*answers, used_at=used_at), ScriptedChannel(frame(b"3"))
    pool = ScriptedPool(channel, later)
    one, two = pool.batches.send(b"", b"one"), pool.batches.send(b"", b"two")
    with pytest.raises(TransportFallback) as caught:
        pool.texts(one)
    assert (str(caught.value), [each for each, _ in pool.dropped]) == (reason, [channel])
    assert channel.is_closed or reason != "garbage"  # else it has ended by itself
    with pytest.raises(TransportFallback, match="ended"):
        pool.texts(two)
    three = pool.batches.send(b"", b"three")
    with pytest.raises(TransportFallback, match="ended"):
        pool.texts(two)
    assert (pool.texts(three), later.sent) == ([b"3"], [b"three"])
    with pytest.raises(TransportFallback, match="ended"):
        pool.texts(three)
    pool.batches.close()
    assert pool.released == [later]


def test_a_declined_batch_leaves_the_channel_to_the_others() -> None:
    channel = ScriptedChannel(ReadDeclined(), frame(b"2"))
    pool = ScriptedPool(channel)
    one, two = pool.batches.send(b"", b"one"), pool.batches.send(b"", b"two")
    with pytest.raises(TransportFallback, match="declined"):
        pool.texts(one)
    assert pool.texts(two) == [b"2"]
    pool.batches.close()
    assert (pool.released, pool.dropped) == ([channel], [])


def test_an_answer_of_several_frames_is_read_to_the_last() -> None:
    channel = ScriptedChannel(frame(b"1", is_last=False), frame(b"2"), frame(b"never"))
    pool = ScriptedPool(channel)
    assert pool.texts(pool.batches.send(b"", b"one")) == [b"1", b"2"]
    halfway = ScriptedPool(ScriptedChannel(frame(b"1", is_last=False), frame(b"2")), ScriptedChannel(frame(b"3")))
    frames = halfway.batches.frames(halfway.batches.send(b"", b"one"))
    assert next(frames).texts == b"1"
    halfway.batches.close()
    assert (halfway.released, len(halfway.dropped)) == ([], 1)
    assert halfway.texts(halfway.batches.send(b"", b"later")) == [b"3"]


def test_a_batch_that_cannot_be_sent_is_sent_on_another_channel() -> None:
    idle, fresh = ScriptedChannel(refuses=ENDED), ScriptedChannel(frame(b"1"))
    pool = ScriptedPool(idle, fresh)
    assert pool.texts(pool.batches.send(b"", b"one")) == [b"1"]
    assert pool.dropped == [(idle, "ended")]
    alone = ScriptedPool(ScriptedChannel(refuses=ENDED, used_at=0.0), fresh)
    with pytest.raises(TransportFallback, match="ended"):
        alone.batches.send(b"", b"one")


def test_a_batch_behind_an_unanswered_one_is_not_repeated() -> None:
    channel, later = ScriptedChannel(frame(b"1")), ScriptedChannel(frame(b"2"))
    pool = ScriptedPool(channel, later)
    one = pool.batches.send(b"", b"one")
    channel.refuses = ENDED
    with pytest.raises(TransportFallback, match="ended"):
        pool.batches.send(b"", b"two")
    with pytest.raises(TransportFallback, match="ended"):
        pool.texts(one)
    assert later.sent == []


def test_without_a_channel_nothing_is_sent() -> None:
    with pytest.raises(TransportFallback, match="busy"):
        ScriptedPool().batches.send(b"", b"one")
    pool = ScriptedPool()
    pool.batches.close()
    assert pool.released == []


def test_an_interruption_while_an_answer_is_read_closes_its_channel() -> None:
    channel = ScriptedChannel(Interruption())
    pool = ScriptedPool(channel)
    with pytest.raises(Interruption):
        pool.texts(pool.batches.send(b"", b"one"))
    assert (channel.is_closed, pool.released, pool.dropped) == (True, [], [(channel, "")])
