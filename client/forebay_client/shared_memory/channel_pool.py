"""The read channels of one client: one for each thread that reads at the moment, the one used last first.

    lease ──> an idle channel, or a new one ──> read ──> release
    every few seconds: dropped views are given back, channels that were idle for long or that Forebay has ended go

A path where nobody listens is not tried again at once: after a failure to open one there is no channel for a while,
longer each time, and ten times as long as the attempt took. So a Forebay that is there again is found within a second,
and one that hangs costs reads over HTTP little. A read that has no answer bars nothing: it may be one slow object.
Channels do not cross a fork: the child makes its own.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from weakref import WeakSet, ref

from forebay_client.shared_memory.channel import ClientChannel
from forebay_client.shared_memory.channel_input import TIMED_OUT, ChannelBroken

TEND_SECONDS: Final = 2.0
IDLE_SECONDS: Final = 10.0
"""Seconds after which a channel without views is closed, and with it the memory files that it has: so long may
descriptors stay open at a client that does not read."""
FIRST_PAUSE: Final = 0.1
MAX_PAUSE: Final = 1.0
"""Seconds without another attempt to connect, which takes some 20 us where nobody listens."""
_SPARED: Final = 10
"""Times as long as an attempt took that had no answer, none is made."""


class ChannelUnavailable(Exception):
    """No channel can be had now. The argument is the reason, in a word."""


class ChannelPool:
    """See the module. Used by many threads at once."""

    def __init__(
        self,
        open_channel: Callable[[], ClientChannel],
        limit: int,
        clock: Callable[[], float] = time.monotonic,
        tend_seconds: float = TEND_SECONDS,
    ) -> None:
        """`open_channel`: raises ChannelBroken. `limit`: channels at once."""
        self._open_channel, self._limit, self._clock = open_channel, limit, clock
        self._tend_seconds = tend_seconds
        self.renew()
        _pools.add(self)

    def renew(self) -> None:
        """Begins anew, in the child after a fork."""
        self._idle: deque[ClientChannel] = deque()
        self._all: WeakSet[ClientChannel] = WeakSet()
        self._lock = threading.Lock()
        self._opening = 0
        self._pause = 0.0
        self._not_before = 0.0
        self._why = ""
        self._answered_at = 0.0
        """The time at which a channel was last released."""
        self._tender: threading.Thread | None = None
        self._closed = threading.Event()

    def lease(self) -> ClientChannel:
        """A channel for one read, to be released. Raises ChannelUnavailable."""
        try:
            channel = self._idle.pop()
        except IndexError:
            return self._opened()
        if channel.is_forked:
            channel.close()
            return self.lease()
        return channel

    def release(self, channel: ClientChannel) -> None:
        """Takes a channel back that has answered."""
        if channel.is_forked:
            channel.close()
            self.drop(channel)
            return
        channel.used_at = self._answered_at = self._clock()
        self._idle.append(channel)
        if self._closed.is_set():  # by another thread meanwhile: nobody tends the pool any more
            self._close_idle()

    def drop(self, channel: ClientChannel, why: str = "") -> None:
        """Forgets a channel that is broken. Where none had an answer since one with a timeout sent its read, the server
        may hang: the idle ones go, so that the next read, which opens one, finds that out."""
        if why == TIMED_OUT and self._clock() - self._answered_at >= channel.timeout:
            self._close_idle()
        with self._lock:
            self._all.discard(channel)

    def close(self) -> None:
        """Closes the idle channels, and others when they are released. A later read opens another."""
        self._closed.set()
        self._close_idle()

    def _close_idle(self) -> None:
        with suppress(IndexError):  # there is none left
            while True:
                channel = self._idle.pop()
                channel.close()
                self.drop(channel)

    def tend(self) -> None:
        """Gives back the slots of dropped views, and closes channels that are idle or ended."""
        now = self._clock()
        for _ in range(len(self._idle)):
            try:
                channel = self._idle.popleft()  # the one that was used least recently
            except IndexError:  # other threads have leased the rest
                return
            try:
                if not channel.is_forked and (channel.has_views or now - channel.used_at < IDLE_SECONDS):
                    channel.flush()
                    self._idle.append(channel)
                    continue
                channel.close()
            except ChannelBroken:
                pass
            self.drop(channel)

    def before_fork(self) -> None:
        """Marks the channels that have views: the child will have them too."""
        for channel in list(self._all):
            if channel.has_views:
                channel.is_forked = True

    def after_fork_in_child(self) -> None:
        """Closes the child's copies of all sockets, and begins anew."""
        for channel in list(self._all):
            channel.close()
        self.renew()

    def _opened(self) -> ClientChannel:
        with self._lock:
            if self._clock() < self._not_before:
                raise ChannelUnavailable(self._why)
            # One that an exception of a signal's handler kept from being released is gone when nobody refers to it.
            if len(self._all) + self._opening >= self._limit:
                raise ChannelUnavailable("busy")
            self._opening += 1
        began = self._clock()
        try:
            channel = self._open_channel()
            with self._lock:
                self._all.add(channel)
        except ChannelBroken as error:
            with self._lock:
                self._pause = min(MAX_PAUSE, 2 * self._pause or FIRST_PAUSE)
                now = self._clock()
                self._not_before, self._why = now + max(self._pause, _SPARED * (now - began)), str(error)
            raise ChannelUnavailable(str(error)) from error
        finally:
            with self._lock:
                self._opening -= 1
        self._pause = 0.0
        if self._tender is None or self._closed.is_set() or not self._tender.is_alive():
            self._closed = threading.Event()
            self._tender = threading.Thread(
                target=_tend, args=(ref(self), self._closed, self._tend_seconds), name="forebay-channels", daemon=True
            )
            self._tender.start()
        return channel


def _tend(pool: "ref[ChannelPool]", closed: threading.Event, seconds: float) -> None:
    """Tends a pool until it is closed or gone."""
    while not closed.wait(seconds):
        living = pool()
        if living is None:
            return
        living.tend()
        del living


_pools: "WeakSet[ChannelPool]" = WeakSet()


def _before_fork() -> None:
    for pool in list(_pools):
        pool.before_fork()


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
