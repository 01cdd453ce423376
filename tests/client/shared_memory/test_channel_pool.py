"""The pool of channels: which is used next, when none is tried, what ends with time and with a fork."""

import gc
import threading
from collections.abc import Callable
from threading import Event, Thread

import pytest

from forebay_client.shared_memory.channel_input import TIMED_OUT, ChannelBroken
from forebay_client.shared_memory.channel_pool import (
    FIRST_PAUSE,
    IDLE_SECONDS,
    MAX_PAUSE,
    ChannelPool,
    ChannelUnavailable,
)
from harness.forked import in_a_fork


class FakeChannel:
    """A channel without a connection."""

    def __init__(self) -> None:
        self.is_forked = self.has_views = self.is_closed = self.has_ended = False
        self.used_at, self.timeout = 0.0, 60.0
        self.flushed = Event()
        self.meanwhile: Callable[[], object] = lambda: None
        """Called while the channel is closed."""

    def flush(self) -> None:
        self.flushed.set()
        if self.has_ended:
            raise ChannelBroken("ended")

    def close(self) -> None:
        self.is_closed = True
        self.meanwhile()


class Fixture:
    """A pool of fake channels and its clock."""

    def __init__(self, limit: int = 2, tend_seconds: float = 3600.0) -> None:
        self.now = 100.0
        self.failure: str | None = None
        self.attempts, self.attempt_takes = 0, 0.0
        self.meanwhile: Callable[[], object] = lambda: None
        """Called while a channel is opened."""
        self.opened: list[FakeChannel] = []
        self.pool = ChannelPool(self.open_channel, limit, lambda: self.now, tend_seconds)  # type: ignore[arg-type] # a fake

    def open_channel(self) -> FakeChannel:
        self.attempts += 1
        self.meanwhile()
        self.now += self.attempt_takes
        if self.failure is not None:
            raise ChannelBroken(self.failure)
        self.opened.append(FakeChannel())
        return self.opened[-1]

    def refused(self) -> int:
        """How many attempts were made by now, after one more lease that has none."""
        with pytest.raises(ChannelUnavailable):
            self.pool.lease()
        return self.attempts


def test_the_channel_used_last_is_used_next() -> None:
    fixture = Fixture()
    first, second = fixture.pool.lease(), fixture.pool.lease()
    fixture.pool.release(second)
    fixture.pool.release(first)
    assert fixture.pool.lease() is first
    assert len(fixture.opened) == 2
    fixture.pool.close()


def test_no_more_channels_than_the_limit() -> None:
    fixture = Fixture(limit=1)
    channel = fixture.pool.lease()
    with pytest.raises(ChannelUnavailable, match="busy"):
        fixture.pool.lease()
    fixture.pool.drop(channel)
    fixture.pool.lease()
    fixture.pool.close()


def test_one_that_is_being_opened_counts() -> None:
    fixture = Fixture(limit=1)
    fixture.meanwhile = fixture.refused
    fixture.pool.lease()
    assert fixture.attempts == 1
    fixture.pool.close()


def test_a_channel_that_was_closed_is_not_counted() -> None:
    fixture = Fixture(limit=1)
    fixture.pool.release(fixture.pool.lease())
    fixture.pool.close()
    fixture.pool.release(fixture.pool.lease())
    fixture.now += IDLE_SECONDS
    fixture.pool.tend()
    fixture.pool.lease()
    assert [channel.is_closed for channel in fixture.opened] == [True, True, False]
    fixture.pool.close()


def test_a_channel_that_nobody_released_is_not_counted_for_ever() -> None:
    """An exception of a signal's handler came between the read and the release."""
    fixture = Fixture(limit=1)
    fixture.pool.lease()
    fixture.opened.clear()
    fixture.pool.lease()
    fixture.pool.close()


def test_after_a_failure_nothing_is_tried_for_a_while() -> None:
    fixture = Fixture()
    fixture.failure = "unreachable"
    with pytest.raises(ChannelUnavailable, match="unreachable"):
        fixture.pool.lease()
    fixture.failure = None
    with pytest.raises(ChannelUnavailable, match="unreachable"):
        fixture.pool.lease()
    fixture.now += FIRST_PAUSE
    fixture.pool.lease()
    fixture.pool.close()


def test_pauses_double_and_begin_anew_after_a_success() -> None:
    """As docs/shared-memory.md has it: after 0.1 s, then more rarely, at least once a second."""
    assert (FIRST_PAUSE, MAX_PAUSE) == (0.1, 1.0)
    fixture = Fixture()
    for attempts in (0, 5):
        fixture.failure = "unreachable"
        for number, pause in enumerate((0.1, 0.2, 0.4, 0.8), 1):
            assert fixture.refused() == attempts + number
            fixture.now += pause - 0.01
            assert fixture.refused() == attempts + number
            fixture.now += 0.011
        fixture.failure = None
        fixture.pool.lease()
    fixture.pool.close()


def test_after_a_long_outage_the_socket_is_found_within_a_second() -> None:
    fixture = Fixture()
    fixture.failure = "unreachable"
    for _ in range(10):  # an hour
        with pytest.raises(ChannelUnavailable):
            fixture.pool.lease()
        fixture.now += 360
    with pytest.raises(ChannelUnavailable):
        fixture.pool.lease()
    fixture.failure = None
    fixture.now += MAX_PAUSE
    fixture.pool.lease()
    fixture.pool.close()


def test_an_attempt_that_took_long_is_made_less_often() -> None:
    fixture = Fixture()
    fixture.failure, fixture.attempt_takes = TIMED_OUT, 2.0
    for _ in range(2):
        with pytest.raises(ChannelUnavailable, match=TIMED_OUT):
            fixture.pool.lease()
    fixture.now += 19.9
    assert fixture.refused() == 1
    fixture.now += 0.1
    with pytest.raises(ChannelUnavailable, match=TIMED_OUT):
        fixture.pool.lease()
    assert fixture.attempts == 2
    fixture.pool.close()


def test_a_channel_that_timed_out_speaks_for_the_idle_ones() -> None:
    """The server may hang: the next read finds that out by the handshake of a new channel."""
    fixture = Fixture()
    fixture.pool.drop(fixture.pool.lease(), TIMED_OUT)  # with no answer at all before
    fixture.opened.clear()
    fixture.attempts = 0
    hung, idle = fixture.pool.lease(), fixture.pool.lease()
    fixture.pool.release(idle)
    fixture.now += hung.timeout
    fixture.pool.drop(hung, TIMED_OUT)
    assert fixture.opened[1].is_closed
    fixture.failure, fixture.attempt_takes = TIMED_OUT, 2.0
    for _ in range(2):
        with pytest.raises(ChannelUnavailable, match=TIMED_OUT):
            fixture.pool.lease()
    assert fixture.attempts == 3
    fixture.pool.close()


def test_one_that_broke_says_nothing_of_the_idle_ones() -> None:
    fixture = Fixture()
    broken, idle = fixture.pool.lease(), fixture.pool.lease()
    fixture.pool.release(idle)
    fixture.now += broken.timeout
    fixture.pool.drop(broken, "broken")
    assert fixture.pool.lease() is idle
    assert not fixture.opened[1].is_closed
    fixture.pool.close()


def test_one_slow_read_takes_no_channel_from_the_others() -> None:
    fixture = Fixture()
    slow, quick = fixture.pool.lease(), fixture.pool.lease()
    fixture.now += slow.timeout
    fixture.pool.release(quick)  # the server has answered meanwhile
    fixture.pool.drop(slow, TIMED_OUT)
    assert not fixture.opened[1].is_closed
    assert fixture.pool.lease() is quick
    fixture.pool.lease()
    assert len(fixture.opened) == 3
    fixture.pool.close()


def test_idle_and_ended_channels_are_closed_and_views_keep_one() -> None:
    fixture = Fixture(limit=3)
    leased = [fixture.pool.lease() for _ in range(3)]
    for channel in leased:
        fixture.pool.release(channel)
    kept, ended, idle = fixture.opened
    kept.has_views = ended.has_ended = True
    fixture.pool.tend()
    assert [channel.is_closed for channel in fixture.opened] == [False, False, False]
    assert all(channel.flushed.is_set() for channel in fixture.opened)
    assert fixture.pool.lease() is leased[2]  # the ended one is gone
    fixture.pool.release(leased[2])
    fixture.now += IDLE_SECONDS
    fixture.pool.tend()
    assert (kept.is_closed, idle.is_closed) == (False, True)
    fixture.pool.close()
    assert kept.is_closed


def test_a_channel_that_was_leased_at_the_end_is_closed() -> None:
    """Nobody tends the pool any more."""
    fixture = Fixture()
    channel = fixture.pool.lease()
    fixture.pool.close()
    fixture.pool.release(channel)
    assert fixture.opened[0].is_closed
    fixture.pool.release(fixture.pool.lease())  # a later read begins anew, even if the thread has not ended yet
    assert not fixture.opened[1].is_closed
    fixture.pool.close()


def test_a_pool_is_tended_while_others_lease() -> None:
    fixture = Fixture()
    for channel in [fixture.pool.lease(), fixture.pool.lease()]:
        fixture.pool.release(channel)
    fixture.now += IDLE_SECONDS
    fixture.opened[0].meanwhile = fixture.pool.lease
    fixture.pool.tend()
    assert [channel.is_closed for channel in fixture.opened] == [True, False]
    fixture.pool.close()


def test_a_channel_with_views_at_a_fork_is_not_used_again() -> None:
    fixture = Fixture()
    held, free = fixture.pool.lease(), fixture.pool.lease()
    fixture.opened[0].has_views = True
    fixture.pool.before_fork()
    fixture.pool.release(held)
    fixture.pool.release(free)
    assert fixture.opened[0].is_closed
    assert fixture.pool.lease() is free
    fixture.pool.lease()  # the other one is not counted any more
    fixture.pool.close()


@pytest.mark.parametrize("is_tended", [False, True])
def test_an_idle_one_with_views_at_a_fork_is_closed(*, is_tended: bool) -> None:
    fixture = Fixture()
    fixture.pool.release(fixture.pool.lease())
    fixture.opened[0].has_views = True
    fixture.pool.before_fork()
    if is_tended:
        fixture.pool.tend()
        assert fixture.opened[0].is_closed
    fixture.pool.lease()
    assert (len(fixture.opened), fixture.opened[0].is_closed) == (2, True)
    fixture.pool.close()


def test_a_fork_closes_the_copies_in_the_child() -> None:
    fixture = Fixture(limit=1)
    fixture.pool.release(fixture.pool.lease())

    def child() -> tuple[bool, bool, int]:
        copied = fixture.opened[0].is_closed
        fixture.pool.lease()
        return copied, fixture.opened[1].is_closed, len(tenders())

    assert in_a_fork(child) == (True, False, 1)
    assert not fixture.opened[0].is_closed
    fixture.pool.close()


def tenders() -> set[Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "forebay-channels" and thread.is_alive()}


def test_one_thread_tends_a_pool_until_it_is_closed() -> None:
    others = tenders()
    fixture = Fixture(limit=3, tend_seconds=0.001)
    for _ in range(2):  # a pool may be used again after its end
        leased = [fixture.pool.lease() for _ in range(2)]
        [tender] = tenders() - others
        assert tender.daemon
        for channel in leased:
            fixture.pool.release(channel)
        assert all(channel.flushed.wait(30.0) for channel in fixture.opened)
        fixture.pool.close()
        tender.join(30.0)
        assert not tender.is_alive()
        fixture.opened.clear()


def test_the_thread_of_a_pool_that_is_gone_ends() -> None:
    others = tenders()
    fixture = Fixture(tend_seconds=0.001)
    fixture.pool.lease()
    [tender] = tenders() - others
    del fixture
    gc.collect()
    tender.join(30.0)
    assert not tender.is_alive()


def test_the_child_of_a_fork_begins_without_channels() -> None:
    fixture = Fixture()
    parents = fixture.pool.lease()
    fixture.pool.after_fork_in_child()
    assert fixture.opened[0].is_closed  # the child's descriptor; the parent's stays open
    own = fixture.pool.lease()
    assert own is not parents
    fixture.pool.drop(parents)  # it counted in the parent alone
    fixture.pool.lease()
    with pytest.raises(ChannelUnavailable, match="busy"):
        fixture.pool.lease()
    fixture.pool.close()
