"""Counting: what is learnt of a write while its body passes, and what becomes of it when the origin has confirmed it.

    PutObject                  its tally is remembered for the version that it became
    UploadPart                 its tally is remembered under its upload, its bytes are held if they may be gathered
    UploadPartCopy             what was known under its number is not what is there now
    CompleteMultipartUpload    small parts are gathered first; the tallies of the parts make that of the object
    AbortMultipartUpload       its parts are forgotten

A write whose outcome is not known leaves nothing behind: a CRC64 is never guessed.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.origin.origin_response import OriginResponse
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name, encode_name
from forebay.protocol.body.checksums import Piece
from forebay.protocol.xml.s3_documents import UploadedPart, result_etag
from forebay.storage.spool import SpooledBody
from forebay.write.body_digest import BodyDigest, WrittenDigests, crc_header
from forebay.write.forwarder import ForwardRequest
from forebay.write.multipart.part_coalescer import NOTIFY_TIMEOUT, CoalescedCompletion, PartCoalescer

_COUNTED: Final = frozenset({"PutObject", "UploadPart"})
_APPENDS: Final = "x-amz-write-offset-bytes"  # with it, the object is not the body


class WriteTracker:
    """Counts writes. Shared by all of them."""

    def __init__(self, gathering: PartCoalescer, known: WrittenDigests, peers: Peers) -> None:
        self.coalescer = gathering
        self.digests = known
        self._peers = peers

    async def record(self, name: ObjectName, etag: str, tally: BodyDigest) -> None:
        """The origin has confirmed this body as the version with this ETag: so that whichever worker learns its head
        knows its CRC64."""
        self.digests.record(name, etag, tally)
        if self._peers.others:
            document = {"name": encode_name(name), "etag": etag, "crc": f"{tally.crc:x}", "size": tally.size}
            with suppress(TimeoutError):
                async with asyncio.timeout(NOTIFY_TIMEOUT):
                    await self._peers.call_all(document | {"kind": "wrote"})

    def receive(self, document: Document) -> None:
        """What another worker has written. Raises PeerUnavailable for what makes no sense."""
        name, etag = decode(lambda: (decode_name(document["name"]), str(document["etag"])))
        self.digests.record(name, etag, decode(lambda: BodyDigest(int(document["crc"], 16), int(document["size"]))))

    async def track(
        self, forward: ForwardRequest, body: bytes | None, listed: Sequence[UploadedPart] | None
    ) -> "TrackedWrite":
        """For one write; `body` is its document, where it had to be read, `listed` the parts in it. Raises S3Error,
        OriginError and Throttled where small parts can't be held or gathered."""
        completion, hold = None, None
        if forward.operation.name == "CompleteMultipartUpload" and body is not None:
            completion = await self.coalescer.completion(forward, body, listed)
        elif forward.operation.name == "UploadPart":
            hold = await self.coalescer.spool(forward)
        return TrackedWrite(self, forward, completion, hold)


class TrackedWrite:
    """One write."""

    def __init__(
        self,
        counter: WriteTracker,
        parcel: ForwardRequest,
        completion: CoalescedCompletion | None,
        hold: SpooledBody | None,
    ) -> None:
        self._counter = counter
        self._parcel = parcel
        self._completion = completion
        self._hold = hold
        self._tally = BodyDigest()
        self._counts = parcel.operation.name in _COUNTED and _APPENDS not in parcel.request.headers
        self._settled = False

    @property
    def document(self) -> bytes | None:
        """The document to be sent in place of the client's."""
        return self._completion.body if self._completion is not None else None

    def update(self, piece: Piece) -> None:
        """The next bytes of the body."""
        if self._counts:
            self._tally.update(piece)
        if self._hold is not None:
            self._hold.append(piece)

    async def confirmed(self, answer: OriginResponse, result: bytes) -> HeaderPairs:
        """The origin has confirmed it; what the client is told besides."""
        self._settled = True
        parcel, counter, told = self._parcel, self._counter, None
        etag = answer.headers.get("ETag", "")
        match parcel.operation.name:
            case "PutObject" if self._counts:
                told = self._tally
                await counter.record(parcel.target.name, etag, told)
            case "UploadPart":
                told, hold = self._tally, self._hold
                self._hold = None
                await counter.coalescer.add(parcel, etag, told, hold)
            case "UploadPartCopy":
                await counter.coalescer.remove(parcel)
            case "CompleteMultipartUpload":
                told = self._completion.digest if self._completion is not None else None
                if told is not None:
                    await counter.record(parcel.target.name, result_etag(result) or "", told)
                await counter.coalescer.end(parcel)
            case "AbortMultipartUpload":
                await counter.coalescer.end(parcel)
            case _:
                pass
        return crc_header(told) if parcel.speaks_oss else ()

    def refused(self) -> None:
        """The origin has answered, and not done it."""
        self._settled = True

    async def close(self) -> None:
        """It is over, however it went. Safe to say twice."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None
        if not self._settled and self._parcel.operation.name in {"UploadPart", "UploadPartCopy"}:
            await self._counter.coalescer.remove(self._parcel)  # by this one, perhaps
