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
from forebay.origin.origin_response import OriginAnswer
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import name_document, name_of, read
from forebay.protocol.body.checksums import Piece
from forebay.protocol.xml.s3_documents import UploadedPart, result_etag
from forebay.storage.spool import Hold
from forebay.write.body_digest import KnownTallies, Tally, crc_header
from forebay.write.forwarder import Parcel
from forebay.write.multipart.part_coalescer import TELLING, Completion, Gathering

_COUNTED: Final = frozenset({"PutObject", "UploadPart"})
_APPENDS: Final = "x-amz-write-offset-bytes"  # with it, the object is not the body


class Counter:
    """Counts writes. Shared by all of them."""

    def __init__(self, gathering: Gathering, known: KnownTallies, peers: Peers) -> None:
        self.gathering = gathering
        self.known = known
        self._peers = peers

    async def wrote(self, name: ObjectName, etag: str, tally: Tally) -> None:
        """The origin has confirmed this body as the version with this ETag: so that whichever worker learns its head
        knows its CRC64."""
        self.known.wrote(name, etag, tally)
        if self._peers.others:
            document = {"name": name_document(name), "etag": etag, "crc": f"{tally.crc:x}", "size": tally.size}
            with suppress(TimeoutError):
                async with asyncio.timeout(TELLING):
                    await self._peers.gather(document | {"kind": "wrote"})

    def told(self, document: Document) -> None:
        """What another worker has written. Raises PeerGone for what makes no sense."""
        name, etag = read(lambda: (name_of(document["name"]), str(document["etag"])))
        self.known.wrote(name, etag, read(lambda: Tally(int(document["crc"], 16), int(document["size"]))))

    async def counting(self, parcel: Parcel, body: bytes | None, listed: Sequence[UploadedPart] | None) -> "Counting":
        """For one write; `body` is its document, where it had to be read, `listed` the parts in it. Raises S3Error,
        OriginError and Throttled where small parts can't be held or gathered."""
        completion, hold = None, None
        if parcel.operation.name == "CompleteMultipartUpload" and body is not None:
            completion = await self.gathering.completion(parcel, body, listed)
        elif parcel.operation.name == "UploadPart":
            hold = await self.gathering.hold(parcel)
        return Counting(self, parcel, completion, hold)


class Counting:
    """One write."""

    def __init__(self, counter: Counter, parcel: Parcel, completion: Completion | None, hold: Hold | None) -> None:
        self._counter = counter
        self._parcel = parcel
        self._completion = completion
        self._hold = hold
        self._tally = Tally()
        self._counts = parcel.operation.name in _COUNTED and _APPENDS not in parcel.request.headers
        self._settled = False

    @property
    def document(self) -> bytes | None:
        """The document to be sent in place of the client's."""
        return self._completion.body if self._completion is not None else None

    def take(self, piece: Piece) -> None:
        """The next bytes of the body."""
        if self._counts:
            self._tally.take(piece)
        if self._hold is not None:
            self._hold.take(piece)

    async def confirmed(self, answer: OriginAnswer, result: bytes) -> HeaderPairs:
        """The origin has confirmed it; what the client is told besides."""
        self._settled = True
        parcel, counter, told = self._parcel, self._counter, None
        etag = answer.headers.get("ETag", "")
        match parcel.operation.name:
            case "PutObject" if self._counts:
                told = self._tally
                await counter.wrote(parcel.target.name, etag, told)
            case "UploadPart":
                told, hold = self._tally, self._hold
                self._hold = None
                await counter.gathering.confirmed(parcel, etag, told, hold)
            case "UploadPartCopy":
                await counter.gathering.replaced(parcel)
            case "CompleteMultipartUpload":
                told = self._completion.tally if self._completion is not None else None
                if told is not None:
                    await counter.wrote(parcel.target.name, result_etag(result) or "", told)
                await counter.gathering.ended(parcel)
            case "AbortMultipartUpload":
                await counter.gathering.ended(parcel)
            case _:
                pass
        return crc_header(told) if parcel.speaks_oss else ()

    def refused(self) -> None:
        """The origin has answered, and not done it."""
        self._settled = True

    async def end(self) -> None:
        """It is over, however it went. Safe to say twice."""
        if self._hold is not None:
            self._hold.release()
            self._hold = None
        if not self._settled and self._parcel.operation.name in {"UploadPart", "UploadPartCopy"}:
            await self._counter.gathering.replaced(self._parcel)  # by this one, perhaps
