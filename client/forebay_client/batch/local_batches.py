"""Batches beside Forebay: over a read channel, whose entries are slices of a few views of shared memory.

    LocalBatches.send ──> LocalBatch         the next group may be sent before the items of one are read
    LocalBatch.items ──> its items; what is left of the group after a failure, or has no answer, is read by other ways,
                         and the failure is counted

A view of an entry keeps alive the run that it came in, some 256 KiB, until the last view of that run is gone.
"""

from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

from forebay_client.client_errors import error_of_response
from forebay_client.client_stats import ClientStats
from forebay_client.objects import BatchItem, BatchKey
from forebay_client.transport.object_request import TransportFallback


class LocalFrames(Protocol):
    """Sends batches over one channel, and reads their answers (forebay_client.shared_memory.channel_batches)."""

    def send(self, head: bytes, document: bytes) -> int:
        """Sends a batch, and returns its number. Raises TransportFallback."""
        ...

    def frames(self, number: int) -> Iterator[Any]:
        """The answer to the batch of that number, the oldest. Raises TransportFallback."""
        ...

    def close(self) -> None:
        """Ends the use of the channel."""


class LocalTransport(Protocol):
    """The transport that has channels."""

    name: str

    def batches(self) -> LocalFrames | None:
        """None: there is no socket now."""
        ...

    def batch_head(self, bucket: str, document: bytes) -> bytes:
        """Raises TransportFallback."""
        ...


NumberedKey: TypeAlias = tuple[int, BatchKey]
"""A key, behind its position among all that the caller listed."""


class LocalBatches:
    """The batches of one call. Used by one thread at a time; ended by `close`."""

    def __init__(self, transport: LocalTransport, frames: LocalFrames, bucket: str, stats: ClientStats) -> None:
        self._transport, self._frames, self._bucket, self._stats = transport, frames, bucket, stats

    def send(self, document: bytes) -> "LocalBatch | None":
        """Sends a group. None: it can't be sent this way."""
        try:
            number = self._frames.send(self._transport.batch_head(self._bucket, document), document)
        except TransportFallback as fallback:
            self._stats.count_fallback(self._transport.name, str(fallback))
            return None
        return LocalBatch(self._transport.name, self._frames, number, self._bucket, self._stats)

    def close(self) -> None:
        """Ends the use of the channel."""
        self._frames.close()


class LocalBatch:
    """A group that was sent. Its items are read after those of the groups before."""

    def __init__(self, way: str, frames: LocalFrames, number: int, bucket: str, stats: ClientStats) -> None:
        self._way, self._frames, self._number, self._bucket, self._stats = way, frames, number, bucket, stats

    def items(self, left: dict[int, NumberedKey], *, ordered: bool) -> Iterator[BatchItem]:
        """The items of the group. Takes each out of `left`, by its position in the document."""
        expected = 0
        try:
            for frame in self._frames.frames(self._number):
                body, texts, text_at, before = frame.body, frame.texts, 0, len(left)
                for position, status, text, length, start in frame.entries:
                    index, key = left[position]
                    if ordered and position != expected:
                        raise ValueError("another order")
                    expected = position + 1
                    if status != 200:
                        del left[position]
                        error = self._error(status, texts[text_at : text_at + text], key.key)
                        text_at += text
                        yield BatchItem(index, key.key, error=error)
                        continue
                    data = body[start : start + length]
                    if len(data) != length or (key.end is not None and length > key.end - key.start):
                        raise ValueError("other bytes than were asked for")
                    del left[position]
                    yield BatchItem(index, key.key, data)
                if len(left) == before and not frame.is_last:
                    raise ValueError("a frame of no entries, of which there may be more for ever")
            if left:
                raise ValueError("entries are missing")
        except TransportFallback as fallback:
            self._stats.count_fallback(self._way, str(fallback))
        except (KeyError, ValueError):
            self._frames.close()
            self._stats.count_fallback(self._way, "garbage")
        else:
            self._stats.count_request(self._way)

    def _error(self, status: int, text: bytes, key: str) -> Any:
        code, request_id, message = (*text.decode("utf-8", "replace").split("\n", 2), "", "")[:3]
        return error_of_response(status, code, message, self._bucket, key, request_id or None)
