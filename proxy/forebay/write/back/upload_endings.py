"""Upload endings: decides whether the completion or the abort of an upload counts. Any worker may have accepted either;
the draining worker decides for the one that it receives first.

    ended here ──> recorded, published ──"upload_ending"──> the drainer: it counts, or it is refused
                                                             └ once that is durable: no later start decides otherwise
"""

import asyncio
from typing import Final

from forebay.core.errors import S3Error
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode
from forebay.storage.journal.log_writer import RecordId
from forebay.write.back.drain_duty import DrainDuty
from forebay.write.back.pending.shown_records import ShownRecords

_LOOK_SECONDS: Final = 0.1
"""Seconds between two checks for a worker that takes the drain over."""
_MOST_LOOKS: Final = 100


class UploadEndings:
    """The endings of one worker."""

    def __init__(self, duty: DrainDuty, shown: ShownRecords, peers: Peers) -> None:
        self._duty = duty
        self._shown = shown
        self._peers = peers

    async def receive(self, request: Document) -> Document:
        """Answers another worker. Raises PeerUnavailable."""
        return await self._decide(decode(lambda: RecordId(str(request["log"]), int(request["number"]))))

    async def _decide(self, record: RecordId) -> Document:
        is_drainer = self._duty.is_ready
        is_failed = is_drainer and not await self._duty.wait_settled(record)
        return {"is_drainer": is_drainer, "refused": record in self._shown.refused, "failed": is_failed}

    async def is_refused(self, record: RecordId) -> bool:
        """Returns whether the draining worker refuses an ending. One that has just ended may have settled the parts:
        the next one knows. Raises S3Error."""
        request = {"kind": "upload_ending", "log": record.log, "number": record.number}
        for _ in range(_MOST_LOOKS):
            if self._duty.is_ready:
                responses = [await self._decide(record)]
            else:
                responses = list((await self._peers.call_all(request)).values())
            for response in responses:
                if response.get("is_drainer") is not True:
                    continue
                if response.get("failed") is True:
                    raise S3Error("SlowDown", "The journal can't be written. Please try again.")
                return response.get("refused") is True
            await asyncio.sleep(_LOOK_SECONDS)
        raise S3Error("SlowDown", "No worker carries writes out at the moment. Please try again.")
