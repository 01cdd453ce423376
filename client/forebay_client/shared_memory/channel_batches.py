"""Batches on a read channel: one channel, leased for as long as one caller sends batches.

send ──> message    another may be sent before the answer to the first is read: the server goes on without a pause
frames ──> the frames of the answer to the oldest batch; a batch whose channel has broken has none
close ──> the channel goes back to its pool, or ends where an answer was not read to its end
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from forebay_client.shared_memory.channel import BatchFrame, ClientChannel, ReadDeclined
from forebay_client.shared_memory.channel_input import ChannelBroken
from forebay_client.shared_memory.channel_pool import ChannelPool, ChannelUnavailable
from forebay_client.transport.object_request import TransportFallback

_RECONNECTS = "ended"
"""The reason of a channel that Forebay closed while it was idle, or by a restart."""


class _Batch(NamedTuple):
    """A batch that was sent."""

    number: int
    """Batches of one caller are numbered, so that the answers of a later channel are not taken for those of an earlier
    one."""
    head: bytes
    document: bytes


class ChannelBatches:
    """See the module. Used by one thread at a time."""

    def __init__(self, pool: ChannelPool) -> None:
        self._pool = pool
        self._channel: ClientChannel | None = None
        self._unanswered: deque[_Batch] = deque()
        self._sent = 0

    def send(self, head: bytes, document: bytes) -> int:
        """Sends a batch, and returns its number. Raises TransportFallback."""
        self._sent += 1
        self._send(_Batch(self._sent, head, document))
        return self._sent

    def _send(self, batch: _Batch) -> None:
        while True:
            channel = self._leased()
            # Before it is sent: a signal's handler may raise anything, and the answer comes nevertheless.
            self._unanswered.append(batch)
            try:
                channel.send_batch(batch.head, batch.document)
            except ChannelBroken as error:
                self._unanswered.pop()
                if not self._may_repeat(channel, error) or self._unanswered:
                    raise self._failed(str(error)) from error
            else:
                return

    def frames(self, number: int) -> Iterator[BatchFrame]:
        """The answer to the batch of that number, the oldest. Raises TransportFallback where there is none, or where it
        breaks off."""
        has_begun = False
        while True:
            channel = self._channel
            if channel is None or not self._unanswered or self._unanswered[0].number != number:
                raise TransportFallback("ended")
            try:
                frame = channel.receive_batch()
            except ReadDeclined:
                if has_begun:
                    raise self._failed("garbage") from None
                self._unanswered.popleft()
                raise TransportFallback("declined") from None
            except ChannelBroken as error:
                if has_begun or not self._may_repeat(channel, error):
                    raise self._failed(str(error)) from error
                unanswered = list(self._unanswered)
                self._unanswered.clear()
                for batch in unanswered:
                    self._send(batch)
                continue
            except BaseException:
                self.close()
                raise
            has_begun = True
            if frame.is_last:
                self._unanswered.popleft()
            yield frame
            if frame.is_last:
                return

    def close(self) -> None:
        """Gives the channel back."""
        channel, self._channel = self._channel, None
        if channel is None:
            return
        if not self._unanswered:
            self._pool.release(channel)
            return
        self._unanswered.clear()
        channel.close()
        self._pool.drop(channel)

    def _leased(self) -> ClientChannel:
        if self._channel is None:
            try:
                self._channel = self._pool.lease()
            except ChannelUnavailable as error:
                raise TransportFallback(str(error)) from error
        return self._channel

    def _may_repeat(self, channel: ClientChannel, error: ChannelBroken) -> bool:
        """Gives up a channel that broke; whether another may do better, since this one had been idle."""
        self._channel = None
        self._pool.drop(channel, str(error))
        return str(error) == _RECONNECTS and bool(channel.used_at)

    def _failed(self, reason: str) -> TransportFallback:
        """Returns the exception to raise when no answer comes any more."""
        if self._channel is not None:
            self._channel.close()
            self._pool.drop(self._channel)
            self._channel = None
        self._unanswered.clear()
        return TransportFallback(reason)
