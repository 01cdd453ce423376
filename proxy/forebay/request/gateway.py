"""The gateway: the way of a request through its steps.

    parse ──> authenticate ──> authorise ──> rule ──┬─> freshness ─> plan ─> tiers ─> flight     read from the cache
              └──────── admission ────────────────┘ ├─> pending writes, listings, origin         bypass
                                                    └─> origin, between two invalidations        write

Authentication to rule are one call here (forebay.request.admission): an Admission comes out of it, without which
nothing is read or written. The three ways from there are rooms of their own: forebay.request.object_read,
forebay.request.uncached_read and forebay.request.admitted_write. A request that speaks OSS is in S3's terms from its
admission on, and its reply is translated back (forebay.request.oss_frontend, forebay.request.oss_reply). A form upload
is signed in its body (forebay.request.form_upload).

A request about one of Forebay's own resources, below `.forebay/`, is answered by forebay.request.resource_router, a
batch of reads by forebay.request.batch, each of whose entries comes back here (`Gateway.read`).

The fast lane admits a plain read itself to find out whether it is a hit. If it is none, the Admission comes along
(`Gateway.read`) and nothing is verified twice.

It fails closed: a request that is not a known cacheable read is bypassed to the origin; one that no grant allows is
refused.
"""

import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final

from forebay.core.errors import (
    OriginCredentialFault,
    OriginError,
    S3Error,
    SpoolFailed,
    SpoolFull,
    Throttled,
    WritesPending,
)
from forebay.core.request_record import HOST_ID, RequestRecord
from forebay.core.requester import requester
from forebay.protocol.cors_preflight import PREFLIGHT
from forebay.protocol.exchange import ObjectReply, Request
from forebay.protocol.response_headers import unsatisfiable_headers
from forebay.protocol.signatures.dialect_detection import speaks_oss
from forebay.protocol.target import Target, parse_query, parse_target
from forebay.protocol.xml.s3_documents import error_document
from forebay.request.admission import Admission, GatewayPolicy, KnownHead, admit
from forebay.request.admitted_write import AdmittedWriter
from forebay.request.batch.batch_reader import BatchReader
from forebay.request.cors_frontend import CorsFrontend
from forebay.request.form_upload import FormUpload, is_form
from forebay.request.object_read import ObjectReader
from forebay.request.oss_frontend import OssFrontend
from forebay.request.oss_reply import OssReply
from forebay.request.packed_subresources import PackedSubresources
from forebay.request.resource_router import ResourceRouter
from forebay.request.uncached_read import UncachedReader

_log = logging.getLogger(__name__)

_READ_METHODS: Final = frozenset({"GET", "HEAD"})


class Gateway:
    """Answers requests. Never raises: a failure becomes an error response or an aborted connection."""

    def __init__(
        self,
        policy: GatewayPolicy,
        reader: ObjectReader,
        uncached_reader: UncachedReader,
        writer: AdmittedWriter,
        form_upload: FormUpload,
        oss_frontend: OssFrontend,
        cors_frontend: CorsFrontend,
        resources: ResourceRouter,
        batches: BatchReader,
        subresources: PackedSubresources,
    ) -> None:
        self.policy = policy
        self.reader = reader
        self._uncached_reader = uncached_reader
        self._writer = writer
        self._form_upload = form_upload
        self._oss_frontend = oss_frontend
        self._cors_frontend = cors_frontend
        self.resources = resources
        self._batches = batches
        self._subresources = subresources

    async def handle(
        self, request: Request, reply: ObjectReply, record: RequestRecord, known: KnownHead | None = None
    ) -> None:
        """Answers `request` on `reply` and fills in `record`. `known`: proves the signature if the head of the request
        matches an earlier one."""
        try:
            target = parse_target(request.raw_target, request.host, self.policy.domains, self.policy.cnames)
            if self.policy.answers_pages and "Origin" in request.headers:
                reply = await self._cors_frontend.wrap_reply(reply, request, target)
            if speaks_oss(target, request.headers):
                reply = self._oss_frontend.wrap_reply(reply, request, target, record)
        except S3Error as error:
            await self.refuse(error, request, reply, record)
            return
        await self._answer_failures(self._handle(request, target, reply, record, known), request, reply, record)

    async def read(self, admission: Admission, request: Request, reply: ObjectReply, record: RequestRecord) -> None:
        """Answers the plain read `request` that the fast lane admitted and could not answer."""
        target, operation, decision = admission.target, admission.operation, admission.decision
        if admission.oss_request is not None:
            reply = self._oss_frontend.wrap_reply(reply, request, target, record)
        record.bucket, record.key = target.bucket or "", target.key or ""
        record.principal, record.operation = admission.principal.id, operation.name
        record.rule = decision.rule if decision is not None else ""
        await self._answer_failures(self._carry_out(admission, request, reply, record), request, reply, record)

    async def refuse(self, error: S3Error, request: Request, reply: ObjectReply, record: RequestRecord) -> None:
        """Answers a request whose target was not parsed with `error`, in the dialect of its headers or its query."""
        query: tuple[tuple[str, str], ...] = ()
        if request.raw_target.isascii():  # else it can't be decoded, and says nothing
            with suppress(S3Error):
                query = parse_query(request.raw_target.partition("?")[2])
        unparsed = Target(request.raw_target, "", None, None, query)
        with suppress(S3Error):  # a request in both dialects is refused in S3's
            if speaks_oss(unparsed, request.headers):
                reply = self._oss_frontend.wrap_reply(reply, request, None, record)
        await self._refuse(error, request, reply, record)

    async def _handle(
        self, request: Request, target: Target, reply: ObjectReply, record: RequestRecord, known: KnownHead | None
    ) -> None:
        policy = self.policy
        record.bucket, record.key = target.bucket or "", target.key or ""
        if is_form(request, target):
            await self._form_upload.answer(policy, request, target, reply, record)
            return
        if request.method == PREFLIGHT:
            pages = policy.answers_pages
            await self._cors_frontend.answer_preflight(request, target, reply, record, answers_pages=pages)
            return
        now = request.received_at
        proof = known.prove(policy, target, now) if known is not None else None
        admission = admit(policy, request.method, target, request.headers, now, record=record, proof=proof)
        if known is not None and proof is None:
            known.learn(target, admission)
        await self._carry_out(admission, request, reply, record)

    async def _carry_out(
        self, admission: Admission, request: Request, reply: ObjectReply, record: RequestRecord
    ) -> None:
        """Answers `request` from the cache where its admission allows it, else has the origin answer it."""
        requester.set(admission.principal.id)
        bucket = admission.target.bucket
        if bucket is not None and admission.policy.routes.position_of(bucket) is None:
            raise S3Error("NoSuchBucket", "No origin is configured for this bucket.", BucketName=bucket)
        if admission.headers is not request.headers:  # translated, or hoisted: most requests are neither
            request = request._replace(headers=admission.headers, oss_request=admission.oss_request)
        if isinstance(reply, OssReply):
            reply.request = admission.oss_request
            self._oss_frontend.allow_lookups(reply, admission.target.bucket, admission.identity)
        if admission.operation.name == "GetBatch":
            await self._batches.answer(admission, request, reply, record, self.read)
            return
        if admission.is_for_resource:
            await self.resources.answer(admission, request, reply, record)
            return
        if admission.variant is not None and admission.is_accelerated:
            bypass = await self.reader.answer(admission, request, reply, record)
            if bypass is None:
                return
            _log.info("%s: bypassed to the origin: %s", record.request_id, bypass.reason)
        if await self._subresources.answer(admission, request, reply, record):
            return
        if request.method in _READ_METHODS:
            await self._uncached_reader.answer(admission, request, reply, record)
        else:
            await self._writer.answer(admission, request, reply, record)

    async def _answer_failures(
        self, work: Awaitable[None], request: Request, reply: ObjectReply, record: RequestRecord
    ) -> None:
        """Awaits `work`, which answers `request`; its failure becomes an error response or an aborted connection."""
        try:
            await work
        except S3Error as error:
            if error.status == 503 and error.log_reason is None:  # what the node lacks at the moment
                _log.info("%s: %s: %s", record.request_id, error.code, error.message)
            await self._refuse(error, request, reply, record)
        except Throttled as error:
            _log.info("%s: %s", record.request_id, error)
            reason = "Pending writes come first, and are not at the origin yet. Please try again."
            shown = reason if isinstance(error, WritesPending) else None
            await self._refuse(S3Error("SlowDown", shown), request, reply, record)
        except SpoolFull as error:
            _log.info("%s: %s", record.request_id, error)
            await self._refuse(S3Error("SlowDown", str(error)), request, reply, record)
        except SpoolFailed as error:
            _log.warning("%s: a body can't be kept: %s (limits.held_path)", record.request_id, error)
            message = "Forebay has no room on its disk to keep this body (limits.held_path). Please try again."
            await self._refuse(S3Error("SlowDown", message), request, reply, record)
        except OriginError as error:
            # A refused credential is logged where it is found, at intervals: it fails every request.
            level = logging.INFO if isinstance(error, OriginCredentialFault) else logging.WARNING
            _log.log(level, "%s: the origin could not answer %s: %s", record.request_id, record.operation, error.reason)
            await self._refuse(S3Error("ServiceUnavailable", error.message), request, reply, record)
        except ConnectionError:
            record.aborted = True
            reply.abort()
        except Exception:
            _log.exception("%s: unhandled in step %s", record.request_id, record.step)
            await self._refuse(S3Error("InternalError"), request, reply, record)

    async def _refuse(self, error: S3Error, request: Request, reply: ObjectReply, record: RequestRecord) -> None:
        """Answers with an error document, or aborts if the head of another response has left."""
        record.error = error.code
        if error.log_reason is not None:
            _log.info("%s: %s: %s", record.request_id, error.code, error.log_reason)
        if reply.started:
            reply.abort()
            return
        headers: list[tuple[str, str]] = []
        if record.cache is not None:
            headers.append(("x-forebay-cache", record.cache))
        if error.code == "InvalidRange":
            headers += unsatisfiable_headers(int(error.details["ActualObjectSize"]))
        if error.status == 503:
            headers.append(("Retry-After", "1"))
        try:
            if isinstance(reply, OssReply):
                await reply.refuse(error, tuple(headers))
                return
            document = error_document(error, request_id=record.request_id, host_id=HOST_ID)
            own = (("Content-Type", "application/xml"), ("x-amz-request-id", record.request_id))
            await reply.start(error.status, (*own, *headers), len(document))
            if request.method != "HEAD":
                await reply.write(document)
            await reply.finish()
        except ConnectionError:
            record.aborted = True
            reply.abort()
