"""One read channel: a connection of the Unix socket that was switched to forebay.protocol.channel_frames.

    message ──> releases: slots are free again
            ──> head ──> fast lane ──> a hit: inline, a slot of the ring, or a descriptor
                                  ├──> an admitted read: the request service, in a task; the body to a slot
                                  └──> neither: declined, and the client sends it as plain HTTP

The requests of a channel are answered in order. While a body is being copied, a read is being answered or the client
does not read, further messages wait (`_pending`), and beyond MAX_PENDING the socket is not read.

What a body takes:

    up to 16 KiB, or no slot free                       through the socket
    in files of memory, for who may read everything     its place in the file; the descriptor the first time
    on the SSD, likewise                                the segment's descriptor, each time
    anything else                                       a slot: one copy

A client that breaks the protocol is disconnected. Whatever it keeps of the ring and of files is counted until it lets
go of it (forebay.server.shared_memory.client_memory).
"""

import array
import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.core.timers import Timer, Timers
from forebay.protocol.channel_frames import (
    DECLINED,
    FRAME,
    INLINE,
    RING,
    SLOT_UNIT,
    WITH_DESCRIPTOR,
    read_message,
)
from forebay.request.admission import GatewayPolicy
from forebay.server.fastpath.fast_lane import AdmittedRead, ClientState, HitResponse
from forebay.server.http.accepted_bytes import unacknowledged, write_now
from forebay.server.http.connection_limits import ConnectionLimits, StallTimer, Timeout
from forebay.server.http.request_service import RequestService
from forebay.server.http.sendfile_writer import FileExtent, SendQueue
from forebay.server.shared_memory.body_copy import BodyCopy, read_extent
from forebay.server.shared_memory.channel_files import ChannelFiles
from forebay.server.shared_memory.channel_reply import ChannelReply
from forebay.server.shared_memory.client_memory import ClientMemory
from forebay.server.shared_memory.client_ring import ClientRing

MAX_PENDING: Final = 64 << 10
"""Bytes of messages that may wait."""
COPIED_AT_ONCE: Final = 1 << 20
"""Bytes that are copied before others have their turn."""


@dataclass(frozen=True, slots=True)
class ChannelServices:
    """What every channel of a worker works with."""

    requests: RequestService
    limits: ConnectionLimits
    timers: Timers
    unsent: SemaphoreShare
    """Bytes that may wait for slow clients."""
    send_queue: SendQueue
    memory: ClientMemory
    policy: Callable[[], GatewayPolicy]
    """The policy in force."""


class _ExtentReceiver:
    """What a channel is to the fast lane: it can always receive file extents."""

    is_free = True


class ReadChannel(asyncio.Protocol):
    """See the module."""

    secure = False
    is_pipelined = False

    def __init__(self, services: ChannelServices, peer: str) -> None:
        self._services = services
        self._requests, self._memory = services.requests, services.memory
        self.unsent = services.unsent
        self.peer = peer
        self.transport: asyncio.Transport | None = None
        self._fd = -1
        self._socket: socket.socket | None = None
        """The socket once more, to send descriptors; made on first use."""
        self._client = ClientState(peer, _ExtentReceiver)
        self._pending = b""
        self._is_reading = False
        """Whether a read is being answered, or a body copied."""
        self._is_closing = False
        self._is_stalled = False
        """Whether the client does not read."""
        self._resumed: asyncio.Future[None] | None = None
        self._ring: ClientRing | None = None
        self._ring_failed = False
        self._files = ChannelFiles(services.memory)
        self._policy: GatewayPolicy | None = None
        """Under which a file was passed first."""
        self._idle_timer: Timer | None = None
        self._idle_until = 0.0
        self._stall_timer = StallTimer(services.timers, services.limits.stall, self._unacknowledged, self._abort)

    # The connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving the channel."""
        self.transport = cast("asyncio.Transport", transport)
        self._fd = transport.get_extra_info("socket").fileno()
        self.transport.set_write_buffer_limits(0)
        self._memory.channels.add(self)
        self._watch_idle()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Let go of everything that refers to the connection."""
        self.transport = None
        self._stall_timer.close()
        self._memory.channels.discard(self)
        self._pending = b""
        self._client = ClientState("")
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_exception(ConnectionResetError("the client has left"))
        if self._socket is not None:
            self._socket.close()
        self._files.clear()
        if self._ring is not None and not self._is_reading:
            self._retire_ring()

    def begin_draining(self) -> None:
        """End the channel, at once if it is idle, else with its answer."""
        self._is_closing = True
        if not self._is_reading and self.transport is not None:
            self.transport.close()

    def check_policy(self) -> None:
        """End the channel if the policy has changed since it passed a file: a key may have been revoked."""
        if self._policy is not None and self._policy is not self._services.policy():
            self.begin_draining()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._is_stalled = True

    def resume_writing(self) -> None:
        """The client has read what was written."""
        self._is_stalled = False
        self._stall_timer.stop()
        if self._resumed is not None and not self._resumed.done():
            self._resumed.set_result(None)
        self._process_pending()

    @property
    def writing_paused(self) -> bool:
        """Whether the client does not read."""
        return self._is_stalled

    def write_now(self, pieces: Sequence[Buffer | bytes]) -> int:
        """Write what the client accepts at once. Raises ConnectionError."""
        return write_now(self.transport, self._fd, pieces)

    async def drain(self) -> None:
        """Wait until the client has read what was written. Raises ConnectionError."""
        while self._is_stalled and self.transport is not None:
            before = self._unacknowledged()
            self._resumed = asyncio.get_running_loop().create_future()
            try:
                async with Timeout(self._services.timers, self._services.limits.stall):
                    await self._resumed
            except TimeoutError:
                if self._unacknowledged() == before:
                    raise ConnectionAbortedError("the client takes no bytes") from None
            finally:
                self._resumed = None
        if self.transport is None:
            raise ConnectionResetError("the client has left")

    # Messages

    def data_received(self, data: bytes) -> None:
        """Answer the messages in these bytes, in order, as far as that is possible now."""
        self._pending = self._pending + data if self._pending else data
        self._process_pending()
        if len(self._pending) > MAX_PENDING and self.transport is not None:
            self.transport.pause_reading()

    def _process_pending(self) -> None:
        data, start = self._pending, 0
        if not data:
            return
        was_paused = len(data) > MAX_PENDING
        try:
            while not (self._is_reading or self._is_stalled or self._is_closing):
                found = read_message(data, start)
                if found is None:
                    break
                start += found.size
                for number in found.releases:
                    self._release(number)
                if found.head:
                    self._answer(found.head)
        except (ValueError, OSError):
            self._abort()
            return
        self._pending = data[start:]
        if was_paused and len(self._pending) <= MAX_PENDING and self.transport is not None:
            self.transport.resume_reading()

    def _release(self, number: int) -> None:
        """Take a slot back. Raises ValueError if the client does not have it."""
        if self._ring is None:
            raise ValueError("there is no ring")
        self._ring.release(number * SLOT_UNIT)

    def _answer(self, head: bytes) -> None:
        lane = self._requests.fast_lane
        answer = lane.answer(head, self._client) if lane is not None else None
        if answer is None:
            self._memory.count("declined")
            self._write(FRAME.pack(DECLINED, 0, 0, 0, 0, 0))
        elif isinstance(answer, AdmittedRead):
            self._is_reading = True
            self._requests.read(answer, self)
        else:
            self._write_hit(answer)

    def make_reply(
        self, record: RequestRecord, is_last: Callable[[], bool], isolation: HeaderPairs, *, is_head: bool
    ) -> ChannelReply:
        """The reply to the read that is being answered."""
        return ChannelReply(self, record, is_last, isolation, is_head=is_head)

    def read_answered(self, *, keep_alive: bool) -> None:
        """The read has been answered; `keep_alive`: another request may follow."""
        self._is_reading = False
        if self.transport is None:
            self._retire_ring()
        elif not keep_alive or self._is_closing:
            self.transport.close()
        else:
            self._process_pending()

    # Responses

    def _write_hit(self, hit: HitResponse) -> None:
        head, pieces, extents, size = hit
        if not size:
            self._memory.count("inline")
            self._write(FRAME.pack(INLINE, 0, 0, 0, 0, len(head)) + head)
            return
        if extents and self._client.reads_everything and self._pass(head, extents, size):
            return
        slot = self.allocate(size)
        if slot is None:
            self._memory.count("inline")
            body = [memoryview(read_extent(extent)) for extent in extents] if extents else pieces
            self._write(FRAME.pack(INLINE, 0, 0, 0, 0, len(head) + size) + head, *body)
            return
        ring, position = slot
        copy = BodyCopy(ring.memory.view[position : position + size], extents or pieces)
        if size <= COPIED_AT_ONCE:
            self._copy(copy, head, position, size)
        else:
            self._is_reading = True
            self._services.send_queue.add(lambda: self._copy(copy, head, position, size))

    def _copy(self, copy: BodyCopy, head: bytes, position: int, size: int) -> None:
        """Copy a body to its slot, up to COPIED_AT_ONCE at a time, and announce it."""
        is_alone = not self._is_reading
        try:
            if not copy.advance(COPIED_AT_ONCE):
                self._services.send_queue.add(lambda: self._copy(copy, head, position, size))
                return
            if self.transport is not None:
                self.announce(head, position, size)
        except OSError:
            self._abort()  # a file that is shorter than it was: the client asks again
        if not is_alone:
            self.read_answered(keep_alive=True)

    def allocate(self, length: int) -> tuple[ClientRing, int] | None:
        """A slot for `length` bytes of a body; None if there is none."""
        ring = self._ring
        if ring is None:
            if self._ring_failed:
                return None
            ring = self._ring = self._memory.new_ring()
            if ring is None:
                self._ring_failed = True
                return None
        if not ring.is_passed and not self._can_pass:
            return None
        position = ring.allocate(length)
        return (ring, position) if position >= 0 else None

    def count_inline(self) -> None:
        """Count a read whose body went through the socket."""
        self._memory.count("inline")

    def announce(self, head: bytes, position: int, length: int) -> None:
        """Send the head of a response whose body is in a slot. Raises ConnectionError."""
        ring = self._ring
        if ring is None or self.transport is None:
            raise ConnectionResetError("the client has left")
        self._memory.count("ring")
        if ring.is_passed:
            self._write(FRAME.pack(RING, 0, 0, len(head), position, length) + head)
            return
        reader = ring.memory.file.open_reader()
        try:
            self._send(FRAME.pack(RING, WITH_DESCRIPTOR, 0, len(head), position, length) + head, [reader])
        finally:
            os.close(reader)
        ring.is_passed = True

    def _pass(self, head: bytes, extents: Sequence[FileExtent], size: int) -> bool:
        """Send descriptors of a body in place of its bytes; whether that was possible."""
        if not self._can_pass:
            return False
        try:
            body = self._files.body(head, extents, size)
        except OSError:
            return False  # no descriptor is free here
        if body is None:
            return False
        with body:
            self._send(body.frame, body.descriptors)
        if self._policy is None and len(self._files):
            self._policy = self._services.policy()
        self._memory.count(body.form)
        return True

    @property
    def _can_pass(self) -> bool:
        """Whether descriptors can be sent now: nothing is queued that they would overtake."""
        return self.transport is not None and self.transport.get_write_buffer_size() == 0

    def _write(self, *pieces: Buffer | bytes) -> None:
        """Write to the transport, which has the kernel accept it at once."""
        transport = self.transport
        if transport is None:
            return
        self._idle_until = self._services.timers.time() + self._services.limits.idle_timeout
        if len(pieces) == 1:
            transport.write(pieces[0])
        else:
            transport.writelines(pieces)
        if self._is_stalled:
            self._stall_timer.start(sum(map(len, pieces)), self.unsent)

    def _send(self, data: bytes, descriptors: Sequence[int]) -> None:
        """Write bytes, with descriptors at their start. Raises OSError."""
        if not descriptors:
            self._write(data)
            return
        if self._socket is None:
            self._socket = socket.socket(fileno=os.dup(self._fd))
            self._socket.setblocking(False)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
        try:
            sent = self._socket.sendmsg([data], rights)
        except OSError:
            self._abort()
            raise
        if sent < len(data):
            self._write(data[sent:])

    # Ends

    def _retire_ring(self) -> None:
        ring, self._ring = self._ring, None
        if ring is not None:
            self._memory.retire(ring)

    def _unacknowledged(self) -> int:
        return unacknowledged(self.transport, self._fd)

    def _abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def _watch_idle(self) -> None:
        limits, timers = self._services.limits, self._services.timers
        self._idle_until = max(self._idle_until, timers.time() + limits.idle_timeout)
        self._idle_timer = timers.call_later(limits.idle_timeout, self._check_idle)

    def _check_idle(self) -> None:
        """End a channel that nobody uses. One whose client holds a slot is in use."""
        is_used = self._is_reading or (self._ring is not None and len(self._ring))
        if is_used or self._services.timers.time() < self._idle_until:
            self._watch_idle()
        elif self.transport is not None:
            self.transport.close()
