"""Gathering: an OSS client's small parts at an origin of S3, which takes none below 5 MiB but the last.

    UploadPart                passed on under its own number, so that the origin has it and lists it; a small one is
                              held here as well, within the limit of forebay.storage.spool
    CompleteMultipartUpload   small neighbours are put together (forebay.policy.part_coalescing), uploaded again under
    the
                              number of the first, and the completion names those
    AbortMultipartUpload      lets go of what was held

Nothing is gathered that the origin has not confirmed. What is held is checked against its CRC64 before it is completed.
Where bytes are missing (this Forebay was restarted, or the upload was idle for too long) a completion that needs them
is refused: EntityTooSmall; the upload stays as it is, and the client may upload those parts again.

With several workers a client's requests go to any of them, so each tells the others of the parts that it took, and
lends them the bytes it holds, which then lie in a file.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, assert_never

from forebay.core.cooperative import Stretches
from forebay.core.errors import OriginBroken, S3Error
from forebay.core.names import ObjectName
from forebay.core.yielding import in_turns
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_identity import secret_key_of
from forebay.origin.origin_request import UNSIGNED_PAYLOAD, OriginRequest
from forebay.peers.frames import Document
from forebay.peers.owners import Peers
from forebay.peers.peer_codec import decode, decode_name, encode_name
from forebay.policy.part_coalescing import LEAST, Gathered, GivenPart, TooSmall, gather
from forebay.protocol.xml.s3_documents import UploadedPart, writing_completion
from forebay.storage.spool import Spool, SpooledBody, SpooledFile, SpoolFailed
from forebay.write.body_digest import BodyDigest, combine_digests, combining_digests
from forebay.write.forwarder import ForwardRequest
from forebay.write.multipart.upload_parts import KnownPart, MultipartRegistry

NOTIFY_TIMEOUT: Final = 5.0
"""Seconds that the other workers may take to hear of a part."""
UPLOADS: Final = 4
"""Gathered parts on their way at a time, of one completion."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CoalescedCompletion:
    """A completion as the origin is to see it."""

    body: bytes
    digest: BodyDigest | None
    """Of the object that comes into being; None where a part is not known."""


class PartCoalescer:
    """Holds small parts and puts them together."""

    def __init__(
        self, origin: OriginClient, holds: Spool, parts: MultipartRegistry, peers: Peers, least: int = LEAST
    ) -> None:
        """`least`: bytes of a part that the origin takes anywhere; 0 for one that takes OSS's."""
        self._origin = origin
        self._holds = holds
        self._parts = parts
        self._peers = peers
        self._least = least

    async def spool(self, parcel: ForwardRequest) -> SpooledBody | None:
        """Where the bytes of a part go besides the origin; None: nowhere. Raises S3Error SlowDown, Throttled where
        there is no room for them: better now than when the upload can't be completed."""
        if parcel.operation.name != "UploadPart" or parcel.request.oss_request is None:
            return None
        size = parcel.length
        if size is None or not 0 < size < self._least:
            return None
        if not self._holds.has_space(size):
            self._parts.expire()
        hold = self._holds.create()
        try:
            await hold.reserve(size)
        except BaseException:
            hold.release()
            raise
        return hold

    async def add(self, parcel: ForwardRequest, etag: str, tally: BodyDigest, hold: SpooledBody | None) -> None:
        """The origin has confirmed the part that `parcel` is."""
        place = _part_of(parcel)
        if place is None or not etag:
            if hold is not None:
                hold.release()
            return
        name, upload_id, number = place
        part = KnownPart(etag, tally, hold)
        self._parts.add(name, upload_id, number, part)
        lent = None
        if hold is not None:
            try:
                if self._peers.others:
                    lent = await hold.to_file()
                else:
                    await hold.spill()
            except SpoolFailed as error:
                _log.warning("a part stays in memory, as it can't be written: %s", error)
        await self._notify(part_document(name, upload_id, number, part, lent))

    async def remove(self, parcel: ForwardRequest) -> None:
        """A part was copied in, or its upload was not confirmed: what was known under its number is not what is there,
        or may not be."""
        place = _part_of(parcel)
        if place is not None:
            self._parts.remove(*place)
            name, upload_id, number = place
            await self._notify({"name": encode_name(name), "upload": upload_id, "number": number})

    async def end(self, parcel: ForwardRequest) -> None:
        """The upload was completed or aborted."""
        name, upload_id = parcel.target.name, parcel.target.param("uploadId") or ""
        self._parts.forget(name, upload_id)
        await self._notify({"name": encode_name(name), "upload": upload_id})

    async def _notify(self, document: Document) -> None:
        """The other workers, before the client is told: its next request may go to any of them."""
        if self._peers.others:
            with suppress(TimeoutError):  # one that hangs knows less, and says so when it is asked
                async with asyncio.timeout(NOTIFY_TIMEOUT):
                    await self._peers.call_all(document | {"kind": "part"})

    def receive(self, document: Document) -> None:
        """What another worker tells. Raises PeerUnavailable for what makes no sense."""
        name, upload_id = decode(lambda: (decode_name(document["name"]), str(document["upload"])))
        number = document.get("number")
        if number is None:
            self._parts.forget(name, upload_id)
        elif "etag" in document:
            self._parts.add(name, upload_id, *decode(lambda: part_of(document)))
        else:
            self._parts.remove(name, upload_id, decode(lambda: int(number)))

    async def completion(
        self, parcel: ForwardRequest, body: bytes, listed: Sequence[UploadedPart] | None
    ) -> CoalescedCompletion:
        """The completion with its small parts gathered. `listed`: those in its `body`, None where that is the origin's
        to judge. Raises S3Error EntityTooSmall where they can't be, and whatever the origin fails with."""
        if listed is None:
            return CoalescedCompletion(body, None)
        name, upload_id = parcel.target.name, parcel.target.param("uploadId") or ""
        known = self._parts.lookup(name, upload_id, listed)
        counted = [part.digest for part in known if part is not None]
        tally = await in_turns(combining_digests(counted)) if len(counted) == len(listed) else None
        if parcel.request.oss_request is None or not self._least:
            return CoalescedCompletion(body, tally)
        plan = await in_turns(_planning(listed, known, self._least))
        match plan:
            case TooSmall() if self._parts.differs(name, upload_id, listed):
                raise S3Error("InvalidPart")
            case TooSmall(part):
                raise S3Error(
                    "EntityTooSmall",
                    f"Part {part.number} is smaller than the 5 MiB that the origin takes, and can't be put together "
                    "with its neighbours: it is between large ones, or its bytes are not held here any more. Upload "
                    "the small parts again, or use parts of 5 MiB.",
                    PartNumber=str(part.number),
                )
            case Gathered(runs):
                pass
            case _:
                assert_never(plan)
        if all(len(run) == 1 for run in runs):
            return CoalescedCompletion(body, tally)
        numbered = {part.number: one for part, one in zip(listed, known, strict=True) if one is not None}
        named = {part.number: part for part in listed}
        etags = await self._upload_runs(
            parcel, [[each.number for each in run] for run in runs if len(run) > 1], numbered
        )
        final = [UploadedPart(run[0].number, etags.get(run[0].number) or named[run[0].number].etag) for run in runs]
        return CoalescedCompletion(await in_turns(writing_completion(final)), tally)

    async def _upload_runs(
        self, parcel: ForwardRequest, runs: Sequence[Sequence[int]], known: dict[int, KnownPart]
    ) -> dict[int, str]:
        """Upload runs of small parts, each under its first number; the ETags under these numbers."""
        places = asyncio.Semaphore(UPLOADS)

        async def put(numbers: Sequence[int]) -> tuple[int, str]:
            async with places:
                return numbers[0], await self._upload_run(parcel, numbers[0], [known[number] for number in numbers])

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(put(run)) for run in runs]
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return dict(task.result() for task in tasks)

    async def _upload_run(self, parcel: ForwardRequest, number: int, parts: list[KnownPart]) -> str:
        name, upload_id = parcel.target.name, parcel.target.param("uploadId") or ""
        whole, passed = combine_digests(part.digest for part in parts), BodyDigest()

        async def pieces() -> AsyncIterator[bytes]:
            for part in parts:
                if part.spooled is None:
                    raise S3Error("InternalError")
                try:
                    async for piece in part.spooled.pieces():
                        passed.update(piece)
                        yield piece
                except SpoolFailed as gone:
                    _log.warning("a part of an upload to %s can't be gathered: %s", name.path, gone)
                    raise S3Error("EntityTooSmall", "The bytes of small parts are gone. Upload them again.") from gone
            if passed != whole:
                _log.error("parts of an upload to %s were damaged while they were held", name.path)
                raise S3Error("InternalError", "Bytes that were held here were damaged. Upload the parts again.")

        request = OriginRequest(
            "PUT",
            *name,
            query=(("partNumber", str(number)), ("uploadId", upload_id)),
            body=pieces(),
            content_length=whole.size,
            payload_hash=UNSIGNED_PAYLOAD,
            operation="UploadPart",
            credential=await secret_key_of(parcel.identity),
        )
        async with await self._origin.send(request) as answer:
            etag = answer.headers.get("ETag", "")
            if answer.status != 200 or not etag:
                raise OriginBroken(f"a gathered part was answered with {answer.status}")
        parts[0].coalesced_etag = etag
        return etag


def _planning(
    listed: Sequence[UploadedPart], known: Sequence[KnownPart | None], least: int
) -> Stretches[Gathered | TooSmall]:
    """How the parts of a completion are gathered. There may be ten thousand."""
    given = [
        GivenPart(part.number, one.digest.size, one.spooled is not None) if one else GivenPart(part.number, None, False)
        for part, one in zip(listed, known, strict=True)
    ]
    yield
    return gather(given, least)


def part_document(name: ObjectName, upload_id: str, number: int, part: KnownPart, lent: SpooledFile | None) -> Document:
    """A part, for another worker."""
    return {
        "name": encode_name(name),
        "upload": upload_id,
        "number": number,
        "etag": part.etag,
        "crc": f"{part.digest.crc:x}",
        "size": part.digest.size,
        "path": lent.path if lent is not None else None,
    }


def part_of(document: Document) -> tuple[int, KnownPart]:
    """Number and part. Raises what peers.peer_codec.read translates."""
    size, path = int(document["size"]), document["path"]
    lent = SpooledFile(str(path), size) if path is not None else None
    return int(document["number"]), KnownPart(str(document["etag"]), BodyDigest(int(document["crc"], 16), size), lent)


def _part_of(parcel: ForwardRequest) -> tuple[ObjectName, str, int] | None:
    """Upload and number of a part."""
    number = parcel.target.param("partNumber") or ""
    if not (number.isascii() and number.isdecimal() and len(number) <= 5):
        return None
    return parcel.target.name, parcel.target.param("uploadId") or "", int(number)
