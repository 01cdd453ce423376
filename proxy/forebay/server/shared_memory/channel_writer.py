"""The writer of a read channel: frames, with descriptors where they need them, and the slots that bodies are copied to.

    write ──> the transport, which has the kernel accept it at once, or queues it: the channel is stalled then
    send  ──> past the transport, with descriptors; only where nothing is queued that they would overtake

The connection of a client that accepts nothing for `body_timeout` seconds is aborted. The ring is made for the first
body that needs one.
"""

import array
import asyncio
import os
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.timers import Timers
from forebay.origin.turns.body_turns import BodyTurns
from forebay.protocol.channel_frames import FRAME, RING, SLOT_UNIT, WITH_DESCRIPTOR
from forebay.request.admission import GatewayPolicy
from forebay.server.fastpath.admitted_reads import AdmittedReads
from forebay.server.http.connection_limits import ConnectionLimits, StallTimer, Timeout
from forebay.server.http.sendfile_writer import SendQueue
from forebay.server.http.socket_writes import unacknowledged, write_now
from forebay.server.request_service import RequestService
from forebay.server.shared_memory.batch_requests import BatchRequests
from forebay.server.shared_memory.client_memory import ClientMemory, ReadForm
from forebay.server.shared_memory.client_ring import ClientRing


@dataclass(frozen=True, slots=True)
class ChannelServices:
    """The services that all channels of a worker share."""

    requests: RequestService
    reads: AdmittedReads
    batches: BatchRequests
    body_turns: BodyTurns
    """Notified of each message of a client."""
    limits: ConnectionLimits
    timers: Timers
    unsent: SemaphoreShare
    """Bytes that may wait for slow clients."""
    send_queue: SendQueue
    memory: ClientMemory
    policy: Callable[[], GatewayPolicy]
    """The policy in force."""


class ChannelWriter:
    """See the module. Implements RingConnection (forebay.server.shared_memory.channel_reply)."""

    secure = False

    def __init__(self, services: ChannelServices) -> None:
        self._services = services
        self.memory = services.memory
        self.unsent = services.unsent
        self.transport: asyncio.Transport | None = None
        self._fd = -1
        self._socket: socket.socket | None = None
        """The socket once more, to send descriptors; made on first use."""
        self._writable = select.poll()
        """Polls the socket: the kernel says yes until a quarter of its buffer is used, which some 70 messages are."""
        self.is_stalled = False
        """Whether the client does not read."""
        self._resumed: asyncio.Future[None] | None = None
        """The end of a stall, for which drains wait; None: no drain waits."""
        self.ring: ClientRing | None = None
        self.was_used = False
        """Whether something was written since the last check for idle channels."""
        self._stall_timer = StallTimer(services.timers, services.limits.stall, self._unacknowledged, self.abort)

    # The connection

    def open(self, transport: asyncio.Transport) -> None:
        """Begins to write."""
        self.transport = transport
        self._fd = transport.get_extra_info("socket").fileno()
        self._writable.register(self._fd, select.POLLOUT)
        transport.set_write_buffer_limits(0)

    def close(self) -> None:
        """Drops the connection, which has ended; not the ring."""
        self.transport = None
        self._stall_timer.close()
        self._end_waits()
        if self._socket is not None:
            self._socket.close()

    def pause(self) -> None:
        """The client does not read."""
        self.is_stalled = True

    def resume(self) -> None:
        """The client has read the written bytes."""
        self.is_stalled = False
        self._stall_timer.stop()
        self._end_waits()

    def _end_waits(self) -> None:
        resumed, self._resumed = self._resumed, None
        if resumed is not None:
            resumed.set_result(None)

    @property
    def writing_paused(self) -> bool:
        """Whether the client does not read."""
        return self.is_stalled

    def write_now(self, pieces: Sequence[Buffer | bytes]) -> int:
        """Writes as much as the client accepts at once. Raises ConnectionError."""
        return write_now(self.transport, self._fd, pieces)

    async def drain(self) -> None:
        """Waits until the client has read the written bytes; other tasks may wait as well. Raises ConnectionError."""
        while self.is_stalled and self.transport is not None:
            before = self._unacknowledged()
            if self._resumed is None:
                self._resumed = asyncio.get_running_loop().create_future()
            try:
                async with Timeout(self._services.timers, self._services.limits.stall):
                    await asyncio.shield(self._resumed)
            except TimeoutError:
                if self._unacknowledged() == before:
                    raise ConnectionAbortedError("the client takes no bytes") from None
        if self.transport is None:
            raise ConnectionResetError("the client has left")

    def abort(self) -> None:
        """Breaks the connection."""
        if self.transport is not None:
            self.transport.abort()

    # Frames

    @property
    def can_send(self) -> bool:
        """Whether descriptors can be sent now: nothing is queued that they would overtake, and the kernel has room."""
        transport = self.transport
        return transport is not None and not transport.get_write_buffer_size() and bool(self._writable.poll(0))

    def write(self, *pieces: Buffer | bytes) -> None:
        """Writes to the transport, if the client is still there."""
        transport = self.transport
        if transport is None:
            return
        self.was_used = True
        if len(pieces) == 1:
            transport.write(pieces[0])
        else:
            transport.writelines(pieces)
        if self.is_stalled:
            self._stall_timer.stop()  # of what was written before, and waits still
            self._stall_timer.start(transport.get_write_buffer_size(), self.unsent)

    def send(self, data: bytes, descriptors: Sequence[int]) -> None:
        """Writes bytes, with descriptors, at least one, at their start. Raises ConnectionError."""
        self.was_used = True
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            if self._socket is None:
                self._socket = socket.socket(fileno=os.dup(self._fd))  # of one description: it does not block
            sent = self._socket.sendmsg([data], rights)
        except OSError as error:
            self.abort()  # other frames may count on these descriptors
            raise ConnectionAbortedError("the kernel takes no descriptors") from error
        if sent < len(data):
            self.write(data[sent:])

    # The ring

    def allocate(self, length: int) -> tuple[ClientRing, int] | None:
        """Returns a slot for `length` bytes of a body; None if there is none."""
        if self.ring is None:
            self.ring = self.memory.new_ring()
        ring = self.ring
        if ring is None:
            return None
        if not ring.is_passed and not self.can_send:
            return None
        position = ring.allocate(length)
        return (ring, position) if position >= 0 else None

    def release(self, number: int) -> None:
        """Takes a slot back. Raises ValueError if the client does not have it."""
        if self.ring is None:
            raise ValueError("there is no ring")
        self.ring.release(number * SLOT_UNIT)

    def retire_ring(self) -> None:
        """Retires the ring: nothing is copied to it any more."""
        ring, self.ring = self.ring, None
        if ring is not None:
            self.memory.retire(ring)

    def count(self, form: ReadForm) -> None:
        """Counts an answer."""
        self.memory.count(form)

    def count_inline(self) -> None:
        """Counts a read whose body went through the socket."""
        self.memory.count("inline")

    def announce(self, head: bytes, position: int, length: int) -> None:
        """Sends the head of a response whose body is in a slot. Raises ConnectionError."""
        self.memory.count("ring")
        self.announce_slot(RING, 0, 0, head, position, length)

    def announce_slot(self, kind: int, flags: int, count: int, head: bytes, position: int, length: int) -> None:
        """Sends a frame about a slot and the bytes behind it; the first time with the ring. Raises ConnectionError."""
        ring = self.ring
        if ring is None or self.transport is None:
            raise ConnectionResetError("the client has left")
        if ring.is_passed:
            self.write(FRAME.pack(kind, flags, count, len(head), position, length) + head)
            return
        try:
            reader = ring.memory.file.open_reader()
        except OSError as error:
            self.abort()  # the client counts on the ring from here on
            raise ConnectionAbortedError("the ring can't be opened for the client") from error
        try:
            frame = FRAME.pack(kind, flags | WITH_DESCRIPTOR, count, len(head), position, length)
            self.send(frame + head, [reader])
        finally:
            os.close(reader)
        ring.is_passed = True

    def _unacknowledged(self) -> int:
        return unacknowledged(self.transport, self._fd)
