"""The output of a batch: its TAR, joined from small pieces and written to the client's reply.

Everything is copied, so that no block of a tier and no flight waits for a slow client: what waits is at most FULL_SIZE
bytes and one piece, charged to the share of the buffers that batches have while there is room in it.
"""

from typing import Final

from forebay.core.buffers import Buffer
from forebay.core.fair_semaphore import SemaphoreShare
from forebay.core.heads import HeaderPairs
from forebay.protocol.exchange import Reply

FULL_SIZE: Final = 64 << 10
"""Bytes that are joined before they are written: as many as a transport takes before it waits for the client."""


class BatchOutput:
    """Writes the response of one batch. The head leaves with the first bytes."""

    def __init__(self, reply: Reply, headers: HeaderPairs, share: SemaphoreShare) -> None:
        self._reply = reply
        self._headers = headers
        self._share = share
        self._joined = bytearray()

    @property
    def has_started(self) -> bool:
        """Whether the head has left."""
        return self._reply.started

    @property
    def is_full(self) -> bool:
        """Whether it is to be flushed before more is appended."""
        return len(self._joined) >= FULL_SIZE

    def append(self, piece: Buffer | bytes | bytearray) -> None:
        """Copies a piece."""
        self._joined += piece

    async def flush(self) -> None:
        """Writes what was appended, if anything was. Raises ConnectionError when the client has left, or stalls."""
        if not self._joined:
            return
        joined, self._joined = self._joined, bytearray()
        if not self._reply.started:
            await self._reply.start(200, self._headers, None)
        charged = len(joined) if self._share.try_acquire(len(joined)) else 0
        try:
            await self._reply.write(bytes(joined))
        finally:
            self._share.release(charged)

    async def finish(self) -> None:
        """Ends the response."""
        await self.flush()
        await self._reply.finish()
