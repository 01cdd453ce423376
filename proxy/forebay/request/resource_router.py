"""The resource router: requests about Forebay's own resources, `/<bucket>/.forebay/<kind>/<name>`.

    admission ──> GET, HEAD          the resource's document: conditions, ranges
              ├─> PUT, or a          its body, decoded and verified, at most as long as the kind allows
              │   multipart upload   (request.resource_uploads)
              ├─> DELETE             204, whether it was there or not; of several by a batch: `remover`
              └─> listing            of the resources of all kinds below the prefix

Admission refuses everything else about such keys (forebay.policy.access), so nothing of it reaches the origin. A
resource is cached nowhere and counts as no object read.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from hashlib import md5
from pathlib import Path
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginError, S3Error, Throttled
from forebay.core.heads import HeaderPairs
from forebay.core.names import BATCH_KEY, RESERVED_PREFIX
from forebay.core.request_record import RequestRecord
from forebay.policy.access import authorise_resources
from forebay.protocol.conditions import NotModified, PreconditionFailed, evaluate_conditions, range_applies
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.range_header import WHOLE, Unsatisfiable, parse_range, range_header, resolve, whole_unless_inside
from forebay.protocol.target import Target
from forebay.protocol.xml.s3_documents import ListedKey, completed_document, created_document
from forebay.request.admission import Admission
from forebay.request.resource import ResourceDocument, ResourceEntry, ResourceKind, ResourceOwner, ResourceWriter
from forebay.request.resource_listing import resource_listing
from forebay.request.resource_uploads import ResourceUploads
from forebay.request.verified_bodies import VerifiedBodies, too_large
from forebay.write.length_spooler import LengthSpooler
from forebay.write.object_write import DOCUMENT_LIMIT
from forebay.write.reserved_deletions import RemoveResource

_READ_SIZE: Final = 256 << 10
_CHECKSUMS: Final = ("x-amz-checksum-", "x-amz-sdk-checksum-")
_IGNORED_QUERY: Final = frozenset(
    {"x-id", "uploads", "partnumber", "uploadid", "max-parts", "part-number-marker", "encoding-type"}
)
KINDS_HEADER: Final = "x-forebay-resources"
"""The header of a listing that has the kinds of resources. It tells the client library that the server is a Forebay."""
_XML: Final[HeaderPairs] = (("Content-Type", "application/xml"),)


class ResourceRouter:
    """Answers requests about resources."""

    def __init__(
        self, kinds: Mapping[str, ResourceKind], uploads: ResourceUploads, length_spooler: LengthSpooler | None = None
    ) -> None:
        """`kinds`: by name, the segment behind `.forebay/`. `length_spooler` None: a body must declare its
        length."""
        self.kinds = dict(kinds)
        self._uploads = uploads
        self._bodies = VerifiedBodies(length_spooler)

    async def answer(self, admission: Admission, request: Request, reply: Reply, record: RequestRecord) -> None:
        """Answers an admitted request for which `Admission.is_for_resource`. Raises S3Error, Throttled, OriginError."""
        target = admission.target
        uses_checksums = any(name.lower().startswith(_CHECKSUMS) for name in request.headers)
        owner = ResourceOwner(target.bucket or "", admission.principal, admission.identity, uses_checksums)
        if target.key is None:
            document = resource_listing(target, await self._entries(owner))
            kinds = (KINDS_HEADER, ", ".join(sorted(self.kinds)))
            await _send(reply, record, 200, (*_XML, kinds), document)
            return
        kind, name = self._find(target.key)
        if not _IGNORED_QUERY.issuperset(_parameters(target)):
            raise _without_parameters()
        match admission.operation.name:
            case "DeleteObject":
                if kind is not None:
                    await _remove(kind, owner, name)
                await _send(reply, record, 204, (), b"")
            case "AbortMultipartUpload":
                await self._uploads.abort(admission)
                await _send(reply, record, 204, (), b"")
            case "ListParts":
                document = self._uploads.list_parts(admission, request.received_at)
                await _send(reply, record, 200, _XML, document)
            case "GetObject" | "HeadObject":
                found = await _read(kind, owner, name)
                if found is None:
                    raise S3Error("NoSuchKey", Key=target.key)
                await _send_document(found, request, reply, record)
            case "CreateMultipartUpload":
                self._writer(kind, target.key)
                await _send(reply, record, 200, _XML, created_document(target.name, self._uploads.create()))
            case "UploadPart":
                async with self._bodies.open(admission, request, self._writer(kind, target.key).largest_body) as body:
                    etag = await self._uploads.add_part(admission, body, body.reader.length)
                await _send(reply, record, 200, (("ETag", etag),), b"")
            case operation:
                write = _ResourceWrite(self._writer(kind, target.key), kind, owner, name, admission, request)
                await (self._put if operation == "PutObject" else self._complete)(write, reply, record)

    def remover(self, admission: Admission) -> RemoveResource:
        """Returns a function that removes resources listed by an admitted batch delete, each as its own DELETE
        would."""
        owner = ResourceOwner(admission.target.bucket or "", admission.principal, admission.identity)

        async def remove(listed: ListedKey) -> S3Error | None:
            try:
                authorise_resources(owner.principal, admission.operation, owner.bucket)
                if listed.version_id is not None or listed.is_conditional:
                    return _without_parameters()
                kind, name = self._find(listed.key)
                if kind is not None:
                    await _remove(kind, owner, name)
            except S3Error as refused:
                return refused
            except Throttled:
                return S3Error("SlowDown")
            except OriginError as failure:
                return S3Error("ServiceUnavailable", failure.message)
            return None

        return remove

    def _find(self, key: str) -> tuple[ResourceKind | None, str]:
        """Returns the kind of a key, and the name there; None: there is none. Raises S3Error for a key that is no
        resource."""
        if key == BATCH_KEY:
            raise S3Error("MethodNotAllowed", f"{BATCH_KEY} takes a POST.")
        kind, _, name = key.removeprefix(RESERVED_PREFIX).partition("/")
        return self.kinds.get(kind) if name else None, name

    def _writer(self, kind: ResourceKind | None, key: str) -> ResourceWriter:
        """Returns the writer of a resource that is sent. Raises S3Error where there is none."""
        if kind is None:
            sent = sorted(name for name, each in self.kinds.items() if not isinstance(each.writer, str))
            known = ", ".join(f"{RESERVED_PREFIX}{name}/" for name in sent) or "none"
            raise S3Error("InvalidArgument", f"There is no resource {key!r}; what can be sent: {known}.")
        if isinstance(kind.writer, str):
            raise S3Error("MethodNotAllowed", kind.writer)
        return kind.writer

    async def _entries(self, owner: ResourceOwner) -> list[ResourceEntry]:
        return [
            replace(entry, name=f"{RESERVED_PREFIX}{name}/{entry.name}")
            for name, kind in self.kinds.items()
            if kind.reader is not None
            for entry in await kind.reader.entries(owner)
        ]

    async def _put(self, write: "_ResourceWrite", reply: Reply, record: RequestRecord) -> None:
        await write.check_conditions()
        digest = md5(usedforsecurity=False)
        async with self._bodies.open(write.admission, write.request, write.writer.largest_body) as body:

            async def pieces() -> AsyncIterator[Piece]:
                async for piece in body.pieces():
                    digest.update(piece)
                    yield piece

            added = await write.writer.write(write.owner, write.name, pieces())
        await _send(reply, record, 200, (*added, ("ETag", f'"{digest.hexdigest()}"')), b"")

    async def _complete(self, write: "_ResourceWrite", reply: Reply, record: RequestRecord) -> None:
        await write.check_conditions()
        async with self._bodies.open(write.admission, write.request, DOCUMENT_LIMIT) as body:
            document = b"".join([bytes(piece) async for piece in body.pieces()])
        completed = await self._uploads.complete(write.admission, document)
        if completed.size > write.writer.largest_body:
            raise too_large(write.writer.largest_body)
        added = await write.writer.write(write.owner, write.name, completed.pieces())
        await self._uploads.forget(completed.key)
        answer = completed_document(write.admission.target.name, completed.etag, write.request.url)
        await _send(reply, record, 200, (*added, *_XML), answer)


@dataclass(frozen=True, slots=True)
class _ResourceWrite:
    """A request that makes or replaces a resource."""

    writer: ResourceWriter
    kind: ResourceKind | None
    owner: ResourceOwner
    name: str
    admission: Admission
    request: Request

    async def check_conditions(self) -> None:
        """Raises S3Error where the request's condition is not met, or not known."""
        if "If-Match" in self.request.headers:
            raise S3Error("NotImplemented", "One of Forebay's own resources has no condition If-Match.")
        if "If-None-Match" in self.request.headers and await _read(self.kind, self.owner, self.name) is not None:
            raise S3Error("PreconditionFailed", Condition="If-None-Match")


async def _read(kind: ResourceKind | None, owner: ResourceOwner, name: str) -> ResourceDocument | None:
    """The resource; None: there is none."""
    return await kind.reader.read(owner, name) if kind is not None and kind.reader is not None else None


async def _remove(kind: ResourceKind, owner: ResourceOwner, name: str) -> None:
    if isinstance(kind.remover, str):
        raise S3Error("MethodNotAllowed", kind.remover)
    await kind.remover.remove(owner, name)


def _without_parameters() -> S3Error:
    return S3Error("NotImplemented", "One of Forebay's own resources has no versions and no parameters.")


def _parameters(target: Target) -> set[str]:
    """The names in the query, without those of a signature."""
    return {name.lower() for name, _ in target.query if not name.lower().startswith(("x-amz-", "x-oss-"))}


async def _send_document(found: ResourceDocument, request: Request, reply: Reply, record: RequestRecord) -> None:
    """Answers a GET or HEAD."""
    content, modified = found.content, formatdate(int(found.modified_at), usegmt=True)
    if isinstance(content, Path):
        size = (await asyncio.to_thread(content.stat)).st_size
        etag = f'"{_md5(repr((content.name, size, found.modified_at)).encode())}-1"'
    else:
        size, etag = len(content), f'"{_md5(content)}"'
    own = (("Content-Type", found.content_type), ("ETag", etag), ("Last-Modified", modified), *found.headers)
    verdict = evaluate_conditions(request.headers, etag, modified)
    if isinstance(verdict, NotModified):
        await _send(reply, record, 304, own, b"")
        return
    if isinstance(verdict, PreconditionFailed):
        raise S3Error("PreconditionFailed", Condition=verdict.condition)
    spec = parse_range(range_header(request.headers))
    if not range_applies(request.headers.get("If-Range"), etag, modified):
        spec = WHOLE
    if request.oss_request is not None and request.oss_request.lenient_range:
        spec = whole_unless_inside(spec, size)
    span = resolve(spec, size)
    if isinstance(span, Unsatisfiable):
        raise S3Error("InvalidRange", ActualObjectSize=str(size))
    if spec is not WHOLE:
        own = (*own, ("Content-Range", f"bytes {span.start}-{span.stop - 1}/{size}"))
    headers = (*own, ("Accept-Ranges", "bytes"), ("x-amz-request-id", record.request_id))
    record.step = "reply"
    await reply.start(200 if spec is WHOLE else 206, headers, span.length)
    if request.method != "HEAD":
        async for piece in _pieces(content, span):
            await reply.write(piece)
            record.count_sent("memory", len(piece))
    await reply.finish()


def _md5(content: bytes) -> str:
    return md5(content, usedforsecurity=False).hexdigest()


async def _pieces(content: bytes | Path, span: Span) -> AsyncIterator[bytes]:
    if isinstance(content, bytes):
        if span.length:
            yield content[span.start : span.stop]
        return
    file = await asyncio.to_thread(content.open, "rb")
    try:
        await asyncio.to_thread(file.seek, span.start)
        left = span.length
        while left:
            piece = await asyncio.to_thread(file.read, min(left, _READ_SIZE))
            if not piece:
                raise ConnectionError("the file has become shorter")
            left -= len(piece)
            yield piece
    finally:
        await asyncio.to_thread(file.close)


async def _send(reply: Reply, record: RequestRecord, status: int, headers: HeaderPairs, body: bytes) -> None:
    record.step = "reply"
    length = None if status in {204, 304} else len(body)
    await reply.start(status, (*headers, ("x-amz-request-id", record.request_id)), length)
    if body:
        await reply.write(body)
    await reply.finish()
