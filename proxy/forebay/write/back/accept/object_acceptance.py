"""Acceptance of writes of objects: PUT, copy, delete, batch delete.

A copy of an object whose last write is pending is accepted as a PUT of the same bytes: the source at the origin may
change before the copy is carried out. Any other copy goes through.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.policy.drain_order import WriteInterval
from forebay.protocol.body.checksum_headers import checksum_elements, with_checksum_type
from forebay.protocol.body.part_checksums import algorithm_of, object_algorithm
from forebay.protocol.body.payload import HashedPayload
from forebay.protocol.copy_source import COPY_SOURCE, parse_copy_source
from forebay.protocol.dates import format_document_time
from forebay.protocol.forwarded_headers import forwarded_headers
from forebay.protocol.xml.s3_documents import copied_document, deleted_document
from forebay.storage.journal.pending_objects import PendingObjects, PendingVersion
from forebay.write.back.accept.body_store import HashedSource, StoredBody
from forebay.write.back.accept.copy_sources import CopySources
from forebay.write.back.accept.record_writer import XML, RecordWriter, facts_of, md5_header, with_type
from forebay.write.back.pending.accepted_write import AcceptedWrite
from forebay.write.back.pending.object_metadata import metadata_in
from forebay.write.body_digest import crc_header
from forebay.write.forward_request import WriteContext
from forebay.write.packed_deletions import PackedDeletion

LARGEST_COPY: Final = 64 << 20
"""Bytes of a copy that is accepted."""
_DIRECTIVE: Final = "x-amz-metadata-directive"
_COPY: Final = "COPY"
_REPLACE: Final = "REPLACE"


class ObjectAcceptance:
    """Accepts writes of objects."""

    def __init__(self, writer: RecordWriter, pending: PendingObjects, sources: CopySources) -> None:
        self._writer = writer
        self._pending = pending
        self._sources = sources

    async def put(self, context: WriteContext) -> None:
        """Accepts a PutObject. Raises S3Error, Throttled."""
        began = self._writer.stamp()
        body, stored = await self._writer.receive(context)
        async with self._writer.kept(context, stored) as kept:
            headers = self._writer.origin_headers(context, body, stored)
            form = body.form if body is not None else None
            sha256 = form.sha256 if isinstance(form, HashedPayload) else None
            write = self._write_of(context, began, stored, headers, sha256)
            record = await kept.append(write)
        await self._writer.answer_stored(context, write, record, stored, headers)

    async def delete(self, context: WriteContext, members: PackedDeletion | None) -> None:
        """Accepts a DeleteObject. Raises S3Error, OriginError, Throttled."""
        await self._delete_all(context, [context.forward.target.name], members)
        await self._writer.answer(context, 204)

    async def delete_many(
        self, context: WriteContext, keys: Sequence[str], members: PackedDeletion | None, *, quiet: bool
    ) -> None:
        """Accepts a DeleteObjects. Raises S3Error, OriginError, Throttled."""
        bucket = context.forward.target.bucket or ""
        await self._delete_all(context, [ObjectName(bucket, key) for key in dict.fromkeys(keys)], members)
        await self._writer.answer(context, 200, (XML,), deleted_document(() if quiet else keys))

    async def _delete_all(
        self, context: WriteContext, names: Sequence[ObjectName], members: PackedDeletion | None
    ) -> None:
        """Deletes objects, and members of packs: by the tombstones that are known to be needed, then the journal, then
        those of packs that were published meanwhile."""
        if members is not None:
            await members.hide_first()
        await asyncio.gather(*(self._delete(context, name) for name in names))
        if members is not None:
            await members.finish()

    async def _delete(self, context: WriteContext, name: ObjectName) -> None:
        began = self._writer.stamp()
        interval = WriteInterval(began, self._writer.stamp())
        seen, now = self._writer.seen(name), self._writer.clock()
        write = AcceptedWrite("delete", name, interval, accepted_at=now, replaces=seen)
        await self._writer.write(context, write)

    # Copies

    def copy_obstacle(self, context: WriteContext) -> str | None:
        """Returns why a copy has to go through; None: it may be accepted."""
        source, version = self._source_of(context)
        if version is None or version.head is None:
            return "the source of the copy is at the origin"
        directive = context.forward.request.headers.get(_DIRECTIVE, _COPY)
        if directive not in {_COPY, _REPLACE}:
            return "its directive, which origins refuse"
        if directive == _COPY and source == context.forward.target.name:
            return "a copy onto itself, which origins refuse"
        return None if version.head.size <= LARGEST_COPY else "a large copy"

    def _source_of(self, context: WriteContext) -> tuple[ObjectName | None, PendingVersion | None]:
        source = parse_copy_source(context.forward.request.headers)
        if source is None or source.version_id is not None:
            return None, None
        return source.name, self._pending.current(source.name)

    async def copy(self, context: WriteContext) -> None:
        """Accepts a CopyObject. Raises S3Error."""
        began, source, version = self._writer.stamp(), *self._source_of(context)
        if source is None or version is None or version.head is None:
            raise S3Error("SlowDown", "The source of the copy has just arrived at the origin. Please try again.")
        body = self._sources.pending_body(source, version, Span(0, version.head.size))
        algorithm = algorithm_of(self._writer.sent_headers(context)) or object_algorithm(version.head.facts.headers)
        hashed = HashedSource(body, algorithm) if algorithm is not None else None
        stored = await self._writer.store(context, hashed or body)
        async with self._writer.kept(context, stored) as kept:
            checksums = (hashed.header,) if hashed is not None else ()
            headers = (*_copied_headers(context, version), md5_header(stored), *checksums)
            write = self._write_of(context, began, stored, headers, None)
            record = await kept.append(write)
        await self._writer.publish(write, record, stored.payload)
        document = copied_document(
            stored.etag, format_document_time(write.accepted_at), checksum_elements(with_checksum_type(checksums))
        )
        crc = crc_header(stored.digest) if context.forward.speaks_oss else ()
        await self._writer.answer(context, 200, (XML, *crc), document)

    def _write_of(
        self, context: WriteContext, began: int, stored: StoredBody, headers: HeaderPairs, sha256: str | None
    ) -> AcceptedWrite:
        name, decision, now = context.forward.target.name, context.decision, self._writer.clock()
        return AcceptedWrite(
            "put",
            name,
            WriteInterval(began, self._writer.stamp()),
            headers,
            facts_of(stored.etag, stored.digest.size, now, headers, stored.digest),
            decision.block if decision is not None else 0,
            now,
            sha256,
            stored.bodies,
            replaces=self._writer.seen(name),
        )


def _copied_headers(context: WriteContext, version: PendingVersion) -> HeaderPairs:
    """The headers of a copy: the source's, or those of the request where it says so."""
    request = context.forward.request.headers
    if request.get(_DIRECTIVE, _COPY) == _COPY and version.head is not None:
        return metadata_in(version.head.facts.headers)
    sent = tuple(
        pair for pair in forwarded_headers(request) if not pair[0].lower().startswith((COPY_SOURCE, _DIRECTIVE))
    )
    return with_type(sent)
