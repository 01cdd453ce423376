"""Entries of batches that are members of archives: found in the archive, and read as a range of it.

    find    in the index of the pack whose shard the archive is; else by the headers of the TAR (archive_index)
    read    GET of the archive with Range and If-Match, admitted as the entry was: replaced meanwhile, it is searched
            anew

The model is `archpath` of AIStore's GetBatch.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic
from typing import Final, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.request_record import HOST_ID, RequestRecord
from forebay.metadata.packed_objects import PackedObjects
from forebay.protocol.batch.batch_request import BatchEntry
from forebay.protocol.exchange import ObjectReply, Request
from forebay.protocol.xml.s3_documents import error_document
from forebay.request.admission import Admission
from forebay.request.batch.archive_index import ArchiveIndexes, ArchivePiece, ArchiveRefused, LocatedMember
from forebay.request.batch.entry_reply import EntryReply

ReadObject: TypeAlias = Callable[[Admission, Request, ObjectReply, RequestRecord], Awaitable[None]]
"""Answers the plain read of an admission; never raises (forebay.request.gateway.Gateway.read)."""
_XML: Final = ("Content-Type", "application/xml")


class MemberReads:
    """Reads members for the batches of one worker."""

    def __init__(self, packed: PackedObjects, indexes: ArchiveIndexes) -> None:
        self._packed = packed
        self._indexes = indexes

    def known_part(self, archive: ObjectName, entry: BatchEntry) -> tuple[BatchEntry, str] | None:
        """The part of the archive that an entry stands for, and the ETag of the archive, as far as both are known."""
        located = self._indexes.known(archive, entry.member or "")
        span = _part(entry, located.span) if located is not None else None
        if located is None or span is None:
            return None
        return BatchEntry(entry.key, span.start, span.stop), located.etag

    async def answer(
        self,
        entry: BatchEntry,
        admission: Admission,
        request: Request,
        reply: EntryReply,
        record: RequestRecord,
        read: ReadObject,
    ) -> None:
        """Answers an entry; never raises. `admission` and `request`: of the GET of the archive."""

        async def read_piece(span: Span, etag: str | None) -> ArchivePiece:
            collected = _PieceReply()
            own = RequestRecord("GET", monotonic(), record.request_id, record.peer)
            await read(*_ranged(admission, request, span, etag), collected, own)
            return collected.piece()

        try:
            located = await self._locate(admission, entry, read_piece)
            span = _part(entry, located.span)
            if span is None:
                raise S3Error("InvalidRange", f"The member has {located.span.length} bytes.")
            if span.length:
                await read(*_ranged(admission, request, span, located.etag), reply, record)
                if reply.state == "broken":
                    self._indexes.forget(admission.target.name, located.etag)
                return
            shown = await read_piece(Span(0, 1), located.etag)  # whether it may be read
            if shown.status != 206:
                raise ArchiveRefused(shown)
            await reply.start(206, (), 0)
            await reply.finish()
        except S3Error as error:
            document = error_document(error, request_id=record.request_id, host_id=HOST_ID)
            await self._refuse(reply, error.status, document)
        except ArchiveRefused as refused:
            await self._refuse(reply, refused.piece.status, refused.piece.content)
        except ConnectionError:
            reply.abort()

    async def _locate(
        self, admission: Admission, entry: BatchEntry, read: Callable[[Span, str | None], Awaitable[ArchivePiece]]
    ) -> LocatedMember:
        archive, member = admission.target.name, entry.member or ""
        packed = await self._packed.member_span(archive, member)
        if packed is not None:
            located = LocatedMember(*packed)
            self._indexes.note(archive, member, located)
            return located
        return self._indexes.known(archive, member) or await self._indexes.find(archive, member, read)

    async def _refuse(self, reply: EntryReply, status: int, document: bytes) -> None:
        with suppress(ConnectionError):
            await reply.start(status, (_XML,), len(document))
            await reply.write(document)
            await reply.finish()
            return
        reply.abort()


class _PieceReply:
    """Collects the answer to a read of a piece. Implements forebay.protocol.exchange.ObjectReply."""

    def __init__(self) -> None:
        self._status = 0
        self._headers: dict[str, str] = {}
        self._content = bytearray()
        self._is_whole = False

    def piece(self) -> ArchivePiece:
        """The answer. Raises ConnectionAbortedError if it broke off."""
        if not self._is_whole:
            raise ConnectionAbortedError("an archive broke off")
        _, _, size = self._headers.get("content-range", "").rpartition("/")
        etag = self._headers.get("etag", "")
        return ArchivePiece(self._status, etag, int(size) if size.isdecimal() else 0, bytes(self._content))

    @property
    def started(self) -> bool:
        """Whether the head is here."""
        return self._status != 0

    async def start(self, status: int, headers: HeaderPairs, _length: int | None) -> None:
        """Notes the head."""
        if status == 412:
            raise ConnectionAbortedError("the archive was replaced")
        self._status, self._headers = status, {name.lower(): value for name, value in headers}

    async def write(self, buffer: Buffer | bytes) -> None:
        """Takes a piece."""
        self._content += buffer

    def accept(self, piece: Buffer) -> int:
        """Takes a piece."""
        self._content += piece
        return len(piece)

    @property
    def is_blocked(self) -> bool:
        """Returns False: a piece is small."""
        return False

    async def drain(self) -> None:
        """Returns at once."""

    async def finish(self) -> None:
        """Note that all of it is here."""
        self._is_whole = True

    def abort(self) -> None:
        """Notes nothing: it is not whole."""


def _ranged(admission: Admission, request: Request, span: Span, etag: str | None) -> tuple[Admission, Request]:
    """The GET of a span of the archive."""
    headers = CIMultiDict(admission.headers)
    headers["Range"] = f"bytes={span.start}-{span.stop - 1}"
    if etag is not None:
        headers["If-Match"] = etag
    final = CIMultiDictProxy(headers)
    return admission._replace(headers=final), request._replace(headers=final)


def _part(entry: BatchEntry, member: Span) -> Span | None:
    """Returns the span of the bytes that an entry wants; None: its range begins behind the member."""
    if entry.start >= member.length and not entry.is_whole:
        return None
    stop = member.length if entry.end is None else min(entry.end, member.length)
    return Span(member.start + entry.start, member.start + stop)
