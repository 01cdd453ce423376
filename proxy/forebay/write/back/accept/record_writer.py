"""The record writer: a body and a record into the journal, seen by every worker, then the answer.

    body ──> body file, or the record's payload ──> record, durable ──> published ──> answered
                                                                    └─ the only worker: answered, and published at once

A write that the journal fails to keep is refused (503 SlowDown). Then `has_failed` is true for a while, and writes go
through.
"""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self

from forebay.core.errors import S3Error
from forebay.core.heads import DURABLE_LOCAL, HeaderPairs, ObjectFacts
from forebay.core.names import ObjectName, Version
from forebay.origin.dialects import Dialect
from forebay.origin.origins import Origins
from forebay.protocol.body.checksum_headers import checksums_in, with_checksum_type
from forebay.protocol.dates import http_date
from forebay.protocol.forwarded_headers import forwarded_headers
from forebay.storage.journal.journal import Journal
from forebay.storage.journal.log_writer import JournalFailed, RecordId
from forebay.storage.journal.record_origins import RecordOrigins
from forebay.write.back.accept.body_store import BodyStore, ByteSource, StoredBody
from forebay.write.back.pending.accepted_write import AcceptedPart, JournalEntry
from forebay.write.back.pending.object_metadata import metadata_in
from forebay.write.body_digest import BodyDigest, crc_header
from forebay.write.forward_request import WriteContext
from forebay.write.forwarder import Forwarder
from forebay.write.incoming_body import IncomingBody

FAILURE_SECONDS: Final = 10.0
"""Seconds in which writes go through after the journal has failed."""
XML: Final = ("Content-Type", "application/xml")
DEFAULT_TYPE: Final = ("Content-Type", "binary/octet-stream")


class Publisher(Protocol):
    """Shows records to every worker (write.back.record_exchange)."""

    async def publish(self, entry: JournalEntry, record: RecordId, payload: bytes) -> None:
        """Shows a record. Returns when all workers know it."""

    async def publish_answered(
        self, answer: Coroutine[Any, Any, None], entry: JournalEntry, record: RecordId, payload: bytes
    ) -> None:
        """Shows a record, and has its client answered, not before all workers know it."""


_log = logging.getLogger(__name__)


class KeptBody:
    """See RecordWriter.kept. A class, as each small write passes it twice: a generator costs three times as much.

    A record that was handed over may become durable whoever waits for it, so its body stays, unless the journal has
    voided it. A body that gets no record in the end is locked until the process ends, and reclaimed by the next one.
    """

    __slots__ = ("_append", "_failed", "_is_handed_over", "_stored")

    def __init__(
        self,
        stored: StoredBody,
        append: Callable[[JournalEntry, bytes], Awaitable[RecordId]],
        failed: Callable[[str], S3Error],
    ) -> None:
        """`failed(reason)`: notes that the journal has failed, and returns the refusal."""
        self._stored = stored
        self._append = append
        self._failed = failed
        self._is_handed_over = False

    def append(self, entry: JournalEntry) -> Awaitable[RecordId]:
        """Appends the record of the body; durable when it returns. Raises JournalFailed."""
        self._is_handed_over = True
        return self._append(entry, self._stored.payload)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._stored.release()
            return
        is_void = isinstance(error, JournalFailed) and error.voided
        if is_void or not self._is_handed_over:
            await self._stored.discard()
        if isinstance(error, JournalFailed):
            raise self._failed(str(error)) from None


class RecordWriter:
    """Writes records. `clock`: seconds since the epoch; `monotonic`: from any origin."""

    def __init__(
        self,
        journal: Journal,
        bodies: BodyStore,
        origins: RecordOrigins,
        routes: Origins,
        forwarder: Forwarder,
        publisher: Publisher,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        seen: Callable[[ObjectName], str | None],
    ) -> None:
        """`seen`: what readers see of an object now (write.back.drain.origin_versions)."""
        self.stamp = journal.stamp
        self.clock = clock
        self.seen = seen
        self.bodies = bodies
        self._journal = journal
        self._origins = origins
        self._routes = routes
        self._forwarder = forwarder
        self._publisher = publisher
        self._monotonic = monotonic
        self.failed_until = float("-inf")
        """The end of the time in which writes go through, on the monotonic clock."""
        self.failure = ""
        """Why the journal could not be written; empty once it could again."""

    @property
    def has_failed(self) -> bool:
        """Whether the journal has failed lately."""
        return self._monotonic() < self.failed_until

    async def receive(self, context: WriteContext) -> tuple[IncomingBody | None, StoredBody]:
        """Receives the body of a request, verifies it, and writes it into the journal, for `kept`. Raises
        S3Error, and what its pieces raise."""
        body = await self._forwarder.open_body(context.forward)
        try:
            md5 = body.declared_md5 if body is not None else None
            verified = body.verified if body is not None else b""
            if verified is not None and self.bodies.takes_small(len(verified)):
                return body, self.bodies.store_small(verified, self.dialect(context).etag, verified_md5=md5)
            return body, await self.store(context, body, verified_md5=md5)
        finally:
            if body is not None:
                body.release()

    def kept(self, context: WriteContext, stored: StoredBody) -> "KeptBody":
        """Returns a context in which the record of a body is appended: where there will be none, the body is removed,
        and a failure of the journal is raised as S3Error."""
        return KeptBody(stored, self.append, partial(self._failed, context))

    async def store(
        self, context: WriteContext, body: ByteSource | None, *, verified_md5: bytes | None = None
    ) -> StoredBody:
        """Writes a body into the journal, for a record that is appended within `kept`. Raises S3Error, and what the
        pieces of the body raise."""
        etag_of, size = self.dialect(context).etag, context.forward.content_size or 0
        try:
            return await self.bodies.store(body, etag_of, verified_md5=verified_md5, size=size)
        except OSError as error:
            reason = str(error.strerror)
            raise self._failed(context, reason) from None

    def etag(self, context: WriteContext, digest: str) -> str:
        """Returns the ETag that the origin of the bucket will give a body with this digest."""
        return self.dialect(context).etag(digest)

    def has_checksums(self, context: WriteContext) -> bool:
        """Whether the origin of the bucket knows S3's checksums."""
        return not self.dialect(context).speaks_oss

    def origin_headers(
        self, context: WriteContext, body: IncomingBody | None, stored: StoredBody, *, is_part: bool = False
    ) -> HeaderPairs:
        """The headers of the request to the origin: the client's, the verified checksums, and the MD5 of the bytes."""
        has_checksums = self.has_checksums(context)
        sent = _sent_headers(context, with_checksums=has_checksums)
        sent = sent if is_part else with_type(sent)
        names = {name.lower() for name, _ in sent}
        checksums = body.checksums if body is not None and has_checksums else {}
        added = [(name, value) for name, value in checksums.items() if name not in names]
        if "content-md5" not in names:
            added.append(md5_header(stored))
        return (*sent, *added)

    def sent_headers(self, context: WriteContext) -> HeaderPairs:
        """The client's headers that go to the origin: with its checksums, which were verified, where that knows any."""
        return _sent_headers(context, with_checksums=self.has_checksums(context))

    def dialect(self, context: WriteContext) -> Dialect:
        """Returns the dialect of the origin that a write is for."""
        return self._routes.of(context.forward.target.bucket).dialect

    def submit(self, entry: JournalEntry, payload: bytes = b"") -> asyncio.Future[RecordId]:
        """Hands a record over, which names its origin. The result comes once it is durable, or JournalFailed."""
        return self._journal.submit({**entry.document(), **self._origins.named(entry.name.bucket)}, payload)

    async def append(self, entry: JournalEntry, payload: bytes = b"") -> RecordId:
        """Appends a record; durable when it returns. Raises JournalFailed."""
        record = await self.submit(entry, payload)
        self.note_written()
        return record

    def note_written(self) -> None:
        """Notes that the journal could be written, by this worker or another one."""
        self.failure = ""

    async def publish(self, entry: JournalEntry, record: RecordId, payload: bytes = b"") -> None:
        """Shows a record to every worker."""
        await self._publisher.publish(entry, record, payload)

    async def write(self, context: WriteContext, entry: JournalEntry, payload: bytes = b"") -> RecordId:
        """Appends a record without a body file, and publishes it. Raises S3Error."""
        try:
            record = await self.append(entry, payload)
        except JournalFailed as failure:
            reason = str(failure)
            raise self._failed(context, reason) from None
        await self._publisher.publish(entry, record, payload)
        return record

    def _failed(self, context: WriteContext, reason: str) -> S3Error:
        self.failed_until, self.failure = self._monotonic() + FAILURE_SECONDS, reason
        _log.error("a write of %s is not accepted: %s", context.forward.target.name.path, reason)
        return S3Error("SlowDown", "The journal can't be written. Please try again.")

    async def answer_stored(
        self, context: WriteContext, entry: JournalEntry, record: RecordId, stored: StoredBody, headers: HeaderPairs
    ) -> None:
        """Answers a PutObject or an UploadPart, and shows its record to every worker. `headers`: of the request to the
        origin."""
        checksums = checksums_in(headers) if isinstance(entry, AcceptedPart) else with_checksum_type(headers)
        crc = crc_header(stored.digest) if context.forward.speaks_oss else ()
        answer = self.answer(context, 200, (("ETag", stored.etag), *checksums, *crc))
        await self._publisher.publish_answered(answer, entry, record, stored.payload)

    async def answer(
        self,
        context: WriteContext,
        status: int,
        headers: HeaderPairs = (),
        document: bytes = b"",
        *,
        durable: tuple[str, str] = DURABLE_LOCAL,
    ) -> None:
        """Answers a write. `durable`: the header that says where it is."""
        record = context.record
        record.cache, record.step = "bypass", "reply"
        own = (("x-amz-request-id", record.request_id), durable)
        await context.reply.start(status, (*headers, *own), None if status == 204 else len(document))
        if document:
            await context.reply.write(document)
        await context.reply.finish()


def _sent_headers(context: WriteContext, *, with_checksums: bool) -> HeaderPairs:
    sent = forwarded_headers(context.forward.request.headers)
    if with_checksums:
        return sent
    return tuple(pair for pair in sent if not pair[0].lower().startswith("x-amz-checksum-"))


def with_type(headers: HeaderPairs) -> HeaderPairs:
    """The headers with the Content-Type that an object gets which is sent without, or with an empty one."""
    kept = tuple(pair for pair in headers if pair[1].strip() or pair[0].lower() != "content-type")
    return kept if any(name.lower() == "content-type" for name, _ in kept) else (*kept, DEFAULT_TYPE)


def md5_header(stored: StoredBody) -> tuple[str, str]:
    """The header by which the origin verifies a body."""
    return "Content-MD5", b64encode(stored.md5).decode()


def facts_of(etag: str, size: int, now: float, headers: HeaderPairs, digest: BodyDigest | None = None) -> ObjectFacts:
    """Returns the facts of an object as readers see it. `headers`: those of the request that makes it; `digest`: that
    of its bytes, if known."""
    own = (*metadata_in(headers), *with_checksum_type(headers), *crc_header(digest))
    return ObjectFacts(Version(etag), size, http_date(int(now)), own, checksums_known=True)
