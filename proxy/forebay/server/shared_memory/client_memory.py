"""The memory that one worker shares with its clients: their rings, memory files that were passed to them, channels.

A channel ends with its connection, and its ring when no process has it any more: the client's views of it outlive the
connection. Rings of ended channels and passed files are looked at once a second, as long as there are any.
"""

from collections.abc import Callable, MutableMapping
from typing import Final, Literal, Protocol

from forebay.core.fair_semaphore import FairSemaphore
from forebay.core.timers import Timer, Timers
from forebay.server.shared_memory.client_ring import ClientRing
from forebay.server.shared_memory.passed_files import PASSED_SHARE, PassedFile, PassedFiles
from forebay.storage.memory.shared_blocks import Arena

CHECK_INTERVAL: Final = 1.0
"""Seconds between two checks for released rings and files."""

ReadForm = Literal["inline", "ring", "memory", "segment", "batch", "declined"]
"""The form of the answer to a read of a channel."""


class DrainableChannel(Protocol):
    """A channel, as far as it is ended from here."""

    def begin_draining(self) -> None:
        """Ends the channel, at once if it is idle, else with its answer."""

    def check_policy(self) -> None:
        """Ends the channel if the policy has changed under which it has passed files."""


class ClientMemory:
    """See the module."""

    def __init__(
        self,
        budget: FairSemaphore,
        ring_size: int,
        tier_size: Callable[[], int],
        timers: Timers,
        reads: MutableMapping[tuple[str, ...], int],
    ) -> None:
        """`budget`: the bytes of all rings; `ring_size`: of one. `tier_size`: bytes of the memory tier now. `reads`:
        counts how many were answered, by form."""
        self.budget, self._reads = budget, reads
        self._ring_size, self._tier_size, self._timers = ring_size, tier_size, timers
        self._left: list[ClientRing] = []
        """Rings of channels that have ended."""
        self.files = PassedFiles()
        self.channels: set[DrainableChannel] = set()
        self.plain_connections = 0
        """Connections of the Unix socket that are none."""
        self._timer: Timer | None = None
        self._is_closed = False

    def count(self, form: ReadForm) -> None:
        """Counts a read that was answered in this form."""
        self._reads[(form,)] += 1

    def new_ring(self) -> ClientRing | None:
        """Returns a ring for a client; None if there can be none."""
        if not self._ring_size or self._is_closed:
            return None
        try:
            return ClientRing(self._ring_size, self.budget)
        except OSError:
            return None

    def retire(self, ring: ClientRing) -> None:
        """Closes the ring of a channel that has ended, once its client has released it."""
        if self._is_closed or not ring.memory.file.is_held():
            ring.close()
            return
        self._left.append(ring)
        self._watch()

    def share(self, arena: Arena) -> PassedFile | None:
        """Returns the file of an arena, to be passed to a client; None if it can't be passed now."""
        passed = self.files.share(arena, self._tier_size() // PASSED_SHARE)
        self._watch()
        return passed

    def begin_draining(self) -> None:
        """Ends all channels, busy ones with their answer."""
        for channel in list(self.channels):
            channel.begin_draining()

    def check(self) -> None:
        """Closes the rings and files that no client has any more, and ends channels whose principal may have lost its
        rights."""
        for channel in list(self.channels):
            channel.check_policy()
        self.files.drop_released()
        held = [ring for ring in self._left if ring.memory.file.is_held()]
        for ring in self._left:
            if ring not in held:
                ring.close()
        self._left = held

    def close(self) -> None:
        """Closes all rings and files. Clients keep their mappings."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for ring in self._left:
            ring.close()
        self._left = []
        self.files.close()

    def _watch(self) -> None:
        if self._timer is None and not self._is_closed and (self._left or len(self.files)):
            self._timer = self._timers.call_later(CHECK_INTERVAL, self._check_again)

    def _check_again(self) -> None:
        self._timer = None
        self.check()
        self._watch()
