"""One read channel: a connection of the Unix socket that was switched to forebay.protocol.channel_frames.

    message ──> releases: slots are free again
            ──> head ──> fast lane ──> a hit: inline, a slot of the ring, or a descriptor
                                  ├──> an admitted read, in a task; the body to a slot    (fastpath.admitted_reads)
                                  └──> neither: declined, and the client sends it as plain HTTP
            ──> head and body ──> a batch, in a task; entries to slots, large ones in files  (batch_requests)

The requests of a channel are answered in order, a few before others have their turn. While a body is being copied, a
read is being answered or the client does not read, further requests wait (`_waiting`), and beyond MAX_WAITING bytes the
socket is not read. Slots are taken back at once, unless MAX_REQUESTS wait already.

What a body takes:

    up to 16 KiB, or no slot free                       through the socket
    in files of memory with nothing but what the        its place in the file; the descriptor the first time
    reader may read
    on the SSD, for who may read everything             the segment's descriptor, each time
    anything else                                       a slot: one copy

A client that breaks the protocol is disconnected. Whatever it keeps of the ring and of files is counted until it lets
go of it (forebay.server.shared_memory.client_memory).
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.core.timers import Timer
from forebay.protocol.channel_frames import (
    DECLINED,
    FRAME,
    INLINE,
    MAX_BODY,
    MAX_HEAD,
    MAX_RELEASES,
    MESSAGE,
    Message,
    read_message,
    sole_head,
)
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.lane_answer import AdmittedRead, HitResponse
from forebay.server.shared_memory.body_copy import BodyCopy, read_extent
from forebay.server.shared_memory.channel_batch import BatchReply, ChannelBatch
from forebay.server.shared_memory.channel_files import ChannelFiles
from forebay.server.shared_memory.channel_reply import ChannelReply
from forebay.server.shared_memory.channel_writer import ChannelServices, ChannelWriter
from forebay.storage.memory.promotion import MAPPED_HITS

MAX_WAITING: Final = (64 << 10) + MESSAGE.size + 4 * MAX_RELEASES + MAX_HEAD + MAX_BODY
"""Bytes of messages that may wait: a whole one, and more."""
MAX_REQUESTS: Final = 64
"""Requests that are read before those in front of them are answered; the client library sends a few batches."""
ANSWERED_AT_ONCE: Final = 16
"""Requests that are answered before others have their turn."""
COPIED_AT_ONCE: Final = 1 << 20
"""Bytes that are copied before others have their turn."""


class _ExtentReceiver:
    """The client of the fast lane for a channel: it can always receive file extents."""

    is_free = True
    unpromoted_hits = MAPPED_HITS


class ReadChannel(asyncio.Protocol):
    """See the module."""

    secure = False

    def __init__(self, services: ChannelServices, peer: str) -> None:
        self._services = services
        self._reads, self._memory, self._body_turns = services.reads, services.memory, services.body_turns
        self._writer = ChannelWriter(services)
        self.peer = peer
        self._client = ClientState(peer, _ExtentReceiver)
        self._received = b""
        """Received bytes: read messages, unread ones, and the front of one. The read ones are cut off with the next
        bytes, as each cut copies the rest."""
        self._read_to = 0
        """The end of the read messages."""
        self._waiting: deque[Message] = deque()
        """Requests that wait for their turn."""
        self._waiting_size = 0
        self._is_paused = False
        """Whether the socket is not read."""
        self._is_reading = False
        """Whether a read is being answered, or a body copied."""
        self._is_queued = False
        """Whether others have their turn before more requests are answered."""
        self._is_closing = False
        self._files = ChannelFiles(services, self._writer)
        self._idle_timer: Timer | None = None

    # The connection

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after the client has left."""
        return self._writer.transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts serving the channel."""
        self._writer.open(cast("asyncio.Transport", transport))
        self._memory.channels.add(self)
        self._watch_idle()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Drops everything that refers to the connection."""
        self._memory.channels.discard(self)
        self._received, self._read_to = b"", 0
        self._waiting.clear()
        self._client = ClientState("")
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._writer.close()
        self._files.clear()
        if not self._is_reading:
            self._writer.retire_ring()

    def begin_draining(self) -> None:
        """Ends the channel, at once if it is idle, else with its answer."""
        self._is_closing = True
        if not self._is_reading and self.transport is not None:
            self.transport.close()

    def check_policy(self) -> None:
        """Ends the channel if the policy has changed since it passed a file: a key may have been revoked."""
        if self._files.is_outdated:
            self.begin_draining()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._writer.pause()

    def resume_writing(self) -> None:
        """The client has read the written bytes."""
        self._writer.resume()
        self._answer_waiting()

    # Messages

    def data_received(self, data: bytes) -> None:
        """Takes back slots at once, and answers the requests in these bytes as far as that is possible now."""
        self._body_turns.demand += 1
        if not (self._received or self._waiting or self._is_reading or self._is_closing or self._writer.is_stalled):
            head = sole_head(data)
            if head:  # as most are: nothing is queued
                try:
                    self._answer(head)
                except OSError:
                    self._writer.abort()
                return
        self._received = self._received[self._read_to :] + data if self._received else data
        self._read_to = 0
        self._read_messages()
        self._answer_waiting()
        if self._waiting_bytes() > MAX_WAITING and self.transport is not None:
            self._is_paused = True
            self.transport.pause_reading()

    def _read_messages(self) -> None:
        """Takes back slots, and has requests wait."""
        data, start, waiting = self._received, self._read_to, self._waiting
        try:
            while (
                len(waiting) < MAX_REQUESTS
                and not self._is_closing
                and (found := read_message(data, start)) is not None
            ):
                start += found.size
                for number in found.releases:
                    self._writer.release(number)
                if found.head:
                    waiting.append(found)
                    self._waiting_size += found.size
        except ValueError:
            waiting.clear()
            self._waiting_size, start = 0, len(data)
            self._writer.abort()
        self._received, self._read_to = (data, start) if start < len(data) else (b"", 0)

    def _waiting_bytes(self) -> int:
        """Returns the bytes of received messages that are not answered yet."""
        return self._waiting_size + len(self._received) - self._read_to

    def _answer_waiting(self) -> None:
        waiting, transport = self._waiting, self.transport
        if self._is_queued:
            return
        for _ in range(ANSWERED_AT_ONCE):
            if self._is_reading or self._writer.is_stalled or self._is_closing:
                break
            if not waiting:
                self._read_messages()
                if not waiting:
                    break
            found = waiting.popleft()
            self._waiting_size -= found.size
            try:
                if found.body:
                    self._answer_batch(found.head, found.body)
                else:
                    self._answer(found.head)
            except OSError:
                self._writer.abort()
                return
        else:
            self._is_queued = True
            self._services.send_queue.add(self._go_on)
        if self._is_paused and self._waiting_bytes() <= MAX_WAITING and transport is not None:
            self._is_paused = False
            transport.resume_reading()

    def _go_on(self) -> None:
        """Answers more of the waiting requests, after others have had their turn."""
        self._is_queued = False
        self._answer_waiting()

    def _answer(self, head: bytes) -> None:
        lane = self._reads.fast_lane
        answer = lane.answer(head, self._client) if lane is not None else None
        if answer is None:
            self._decline()
        elif not isinstance(answer, AdmittedRead):
            self._write_hit(answer)
        else:
            self._is_reading = True
            self._reads.begin(answer, self)

    def _answer_batch(self, head: bytes, document: bytes) -> None:
        self._is_reading = True
        if not self._services.batches.begin(head, document, self):
            self._is_reading = False
            self._decline()

    def _decline(self) -> None:
        self._memory.count("declined")
        self._writer.write(FRAME.pack(DECLINED, 0, 0, 0, 0, 0))

    def make_reply(
        self, record: RequestRecord, is_last: Callable[[], bool], isolation: HeaderPairs, *, is_head: bool
    ) -> ChannelReply:
        """Returns the reply to the read that is being answered."""
        return ChannelReply(self._writer, record, is_last, isolation, is_head=is_head)

    def make_batch_reply(self, record: RequestRecord) -> tuple[ChannelBatch, BatchReply]:
        """Returns where the batch that is being answered goes, and where its refusal does."""
        batch = ChannelBatch(self._writer, self._files, record)
        return batch, BatchReply(self._writer, record, batch)

    def read_answered(self, *, keep_alive: bool) -> None:
        """The read has been answered; `keep_alive`: another request may follow."""
        self._is_reading = False
        if self.transport is None:
            self._writer.retire_ring()
        elif not keep_alive or self._is_closing:
            self.transport.close()
        else:
            self._answer_waiting()

    # Responses

    def _write_hit(self, hit: HitResponse) -> None:
        head, pieces, extents, size = hit
        if not size:
            self._memory.count("inline")
            self._writer.write(FRAME.pack(INLINE, 0, 0, 0, 0, len(head)) + head)
            return
        reader = self._client.reader
        if extents and reader is not None:
            frame = self._files.known_frame(head, extents, size)
            if frame is not None:
                self._memory.count("memory")
                self._writer.write(frame)
                return
            if self._files.send_body(reader, head, extents, size):
                return
        slot = self._writer.allocate(size)
        if slot is None:
            self._memory.count("inline")
            body = [memoryview(read_extent(extent)) for extent in extents] if extents else pieces
            self._writer.write(FRAME.pack(INLINE, 0, 0, 0, 0, len(head) + size) + head, *body)
            return
        ring, position = slot
        copy = BodyCopy(ring.memory.view[position : position + size], extents or pieces)
        if size <= COPIED_AT_ONCE:
            self._copy(copy, head, position, size)
        else:
            self._is_reading = True
            self._services.send_queue.add(lambda: self._copy(copy, head, position, size))

    def _copy(self, copy: BodyCopy, head: bytes, position: int, size: int) -> None:
        """Copies a body to its slot, up to COPIED_AT_ONCE at a time, and announces it."""
        is_alone = not self._is_reading
        try:
            if not copy.advance(COPIED_AT_ONCE):
                self._services.send_queue.add(lambda: self._copy(copy, head, position, size))
                return
            if self.transport is not None:
                self._writer.announce(head, position, size)
        except OSError:
            self._writer.abort()  # a file that is shorter than it was: the client asks again
        if not is_alone:
            self.read_answered(keep_alive=True)

    # Ends

    def _watch_idle(self) -> None:
        limits, timers = self._services.limits, self._services.timers
        self._writer.was_used = False
        self._idle_timer = timers.call_later(limits.idle_timeout, self._check_idle)

    def _check_idle(self) -> None:
        """Ends an idle channel. A channel is in use while its client holds a slot."""
        is_used = self._is_reading or bool(self._writer.ring)
        if is_used or self._writer.was_used:
            self._watch_idle()
        elif self.transport is not None:
            self.transport.close()
