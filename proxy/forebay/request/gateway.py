"""The gateway: the way of a request, step by step.

    parse ──> authenticate ──> authorise ──> rule ──┬─> freshness ─> plan ─> tiers ─> flight     reading
                                                    ├─> origin                                    passing
                                                    └─> origin, between two invalidations         writing

A request that speaks OSS is put into S3's terms once it is authenticated, and its reply tells in OSS's terms whatever
is said from the first step on (forebay.request.oss_frontend, ossreply); between the two nobody knows of it. A form
upload is
signed in its body, and goes the same way from there (forebay.request.form_upload).

There is one way in, and it fails closed: no step can be skipped, and what each gives (a Target, a Signed, a Permit) is
an argument of the next. A request that nothing recognised as a plain read is passed on; one that nothing allows is
refused.

A plain read may have been through the steps up to its rule before it gets here: the fast lane takes them to find out
whether it can answer. It then comes as `Admitted`, which holds what each step gave, and `read` goes on from there.
"""

import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from forebay.core.errors import OriginError, S3Error, Throttled
from forebay.core.request_record import RequestRecord
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.access import Permit, Principal, authorise
from forebay.policy.rules import Decision, Rules
from forebay.protocol.copy_source import copy_source
from forebay.protocol.cors_preflight import PREFLIGHT, preflight_refusal
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.operations import Operation, classify
from forebay.protocol.oss.dialect_detection import speaks_oss
from forebay.protocol.oss.oss_request import OssRequest
from forebay.protocol.read_variants import PLAIN
from forebay.protocol.response_headers import unsatisfiable_headers
from forebay.protocol.signatures.hoisted_headers import lifted
from forebay.protocol.signatures.verified import Signed
from forebay.protocol.target import Target, parse_target
from forebay.protocol.xml.s3_documents import error_document
from forebay.request.authentication import Keyring, authenticate
from forebay.request.form_upload import FormUpload, is_form
from forebay.request.object_read import ObjectReader
from forebay.request.oss_frontend import OssFrontend
from forebay.request.oss_reply import OssReply
from forebay.write.forwarder import ForwardRequest, relay
from forebay.write.length_spooler import LengthSpooler
from forebay.write.object_write import ObjectWriter

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class GatewayPolicy:
    """What may change while serving. Another takes its place then, so what was decided under one can be told by it."""

    keyring: Keyring
    rules: Rules
    domains: tuple[str, ...]
    cnames: Mapping[str, str]


class Admitted(NamedTuple):
    """A plain read that has come as far as its rule, and is accelerated: what the steps up to there gave."""

    target: Target
    """As it came; so was the request whose head comes along."""
    principal: Principal
    signed: Signed | None
    asked: OssRequest | None
    """In S3's terms what was asked in OSS's."""
    operation: Operation
    permit: Permit
    decision: Decision
    identity: OriginIdentity | None


class Gateway:
    """Answers requests. Never raises: what goes wrong is an answer, or an aborted connection."""

    def __init__(
        self,
        policy: GatewayPolicy,
        reader: ObjectReader,
        writer: ObjectWriter,
        oss_frontend: OssFrontend,
        length_spooler: LengthSpooler | None,
    ) -> None:
        """`length_spooler` None: who speaks S3 has to say how long a body is."""
        self.policy = policy
        self._reader = reader
        self._writer = writer
        self._length_spooler = length_spooler
        self._form_upload = FormUpload(writer)
        self.oss_frontend = oss_frontend

    async def handle(self, request: Request, reply: Reply, record: RequestRecord) -> None:
        """Answer `request` on `reply`, and note in `record` what it came to."""
        try:
            target = self._target(request)
            if speaks_oss(target, request.headers):
                reply = self.oss_frontend.wrap_reply(reply, request, target, record)
        except S3Error as error:
            await self.refuse(error, request, reply, record)
            return
        await self._settle(self._answer(request, target, reply, record), request, reply, record)

    async def read(self, admitted: Admitted, request: Request, reply: Reply, record: RequestRecord) -> None:
        """Answer the plain read `request`, which came as far as `admitted` says."""
        target, principal, _, asked, operation, _, decision, identity = admitted
        if asked is not None:
            reply = oss = self.oss_frontend.wrap_reply(reply, request, target, record)
            oss.request, target = asked, asked.target
            request = replace(request, headers=asked.headers, oss_request=asked)
            self.oss_frontend.allow_lookups(oss, target.bucket, identity)
        elif target.query:
            target, headers = lifted(target, request.headers)
            request = replace(request, headers=headers)
        record.bucket, record.key = target.bucket or "", target.key or ""
        record.principal, record.operation, record.rule = principal.id, operation.name, decision.rule
        await self._settle(self._read(admitted, target, request, reply, record), request, reply, record)

    async def _read(
        self, admitted: Admitted, target: Target, request: Request, reply: Reply, record: RequestRecord
    ) -> None:
        _, _, signed, _, operation, permit, decision, identity = admitted
        bypass = await self._reader.answer(permit, target.name, request, decision, reply, record, PLAIN, identity)
        if bypass is not None:
            _log.info("%s: passed on: %s", record.request_id, bypass.reason)
            await self._bypass(ForwardRequest(request, target, operation, signed, identity), reply, record)

    async def _settle(self, work: Awaitable[None], request: Request, reply: Reply, record: RequestRecord) -> None:
        """Await `work`, the answering of `request`; what it fails with is an answer too, or an aborted connection."""
        try:
            await work
        except S3Error as error:
            await self._refuse(error, request, reply, record)
        except Throttled as error:
            _log.info("%s: %s", record.request_id, error)
            await self._refuse(S3Error("SlowDown"), request, reply, record)
        except OriginError as error:
            _log.warning("%s: the origin could not answer %s: %s", record.request_id, record.operation, error.reason)
            await self._refuse(S3Error("ServiceUnavailable"), request, reply, record)
        except ConnectionError:
            record.aborted = True
            reply.abort()
        except Exception:
            _log.exception("%s: unhandled in step %s", record.request_id, record.step)
            await self._refuse(S3Error("InternalError"), request, reply, record)

    def _target(self, request: Request) -> Target:
        return parse_target(request.raw_target, request.host, self.policy.domains, self.policy.cnames)

    async def _answer(self, request: Request, target: Target, reply: Reply, record: RequestRecord) -> None:
        policy = self.policy
        record.bucket, record.key = target.bucket or "", target.key or ""

        if is_form(request, target):
            await self._form_upload.answer(request, target, policy.keyring, policy.rules, reply, record)
            return

        if request.method == PREFLIGHT:
            raise preflight_refusal(target, request.headers)

        record.step = "authenticate"
        principal, signed = authenticate(policy.keyring, request.method, target, request.headers, request.received_at)
        record.principal = principal.id
        asked = self.oss_frontend.translate(request.method, target, request.headers, signed)
        if asked is not None and isinstance(reply, OssReply):
            reply.request = asked
            target, request = asked.target, replace(request, headers=asked.headers, oss_request=asked)
        else:
            # Verified as they came; from here on, what a presigned URL moved into the query is the header it stands
            # for.
            target, headers = lifted(target, request.headers)
            request = replace(request, headers=headers)

        record.step = "authorise"
        operation = classify(request.method, target, request.headers)
        record.operation = operation.name
        source = copy_source(request.headers)
        permit = authorise(principal, operation, target, source=source.name if source is not None else None)

        record.step = "rule"
        decision = policy.rules.decide(target.name) if target.key is not None else None
        if decision is not None:
            record.rule = decision.rule
        identity = policy.keyring.origin_identities.get(principal.id)
        if isinstance(reply, OssReply):
            self.oss_frontend.allow_lookups(reply, target.bucket, identity)
        variant = PLAIN if operation.plain_read else operation.variant
        if variant is not None and decision is not None and decision.accelerate:
            bypass = await self._reader.answer(permit, target.name, request, decision, reply, record, variant, identity)
            if bypass is None:
                return
            _log.info("%s: passed on: %s", record.request_id, bypass.reason)

        parcel = ForwardRequest(request, target, operation, signed, identity)
        if request.method in {"GET", "HEAD"}:
            await self._bypass(parcel, reply, record)
            return
        record.cache = "bypass"
        if asked is not None:
            parcel = await self.oss_frontend.prepare_write(parcel)
        elif self._length_spooler is not None:
            parcel = await self._length_spooler.spool(parcel)
        await self._writer.write(parcel, principal, decision, reply, record)

    async def _bypass(self, parcel: ForwardRequest, reply: Reply, record: RequestRecord) -> None:
        """Answer a read with what the origin answers."""
        record.cache, record.step = "bypass", "origin"
        async with await self.oss_frontend.send_read(parcel) as answer:
            record.step = "reply"
            await relay(answer, reply, record, parcel.request)

    async def refuse(self, error: S3Error, request: Request, reply: Reply, record: RequestRecord) -> None:
        """Answer a request that was not looked into, in the dialect that its head speaks."""
        unread = Target(request.raw_target, "", None, None, ())
        with suppress(S3Error):  # who speaks both is told in S3's
            if speaks_oss(unread, request.headers):
                reply = self.oss_frontend.wrap_reply(reply, request, None, record)
        await self._refuse(error, request, reply, record)

    async def _refuse(self, error: S3Error, request: Request, reply: Reply, record: RequestRecord) -> None:
        """Answer with the dialect's error document, or abort if the head of another answer has left."""
        record.error = error.code
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
            document = error_document(error, request_id=record.request_id)
            ours = (("Content-Type", "application/xml"), ("x-amz-request-id", record.request_id))
            await reply.start(error.status, (*ours, *headers), len(document))
            if request.method != "HEAD":
                await reply.write(document)
            await reply.finish()
        except ConnectionError:
            record.aborted = True
            reply.abort()


def _request_ids() -> Iterator[str]:
    """Sixteen hex digits, as S3's are letters and digits: unique enough to find a request in a log.

    A count begun anywhere, so that ids of one process never repeat. Its last digits come from a table: putting a number
    into digits each time costs a hit more than the copy of its body.
    """
    last = [f"{number:03X}" for number in range(1 << 12)]
    for number in itertools.count(secrets.randbits(48)):
        first = f"{number:013X}"
        for digits in last:
            yield first + digits


new_request_id: Final[Callable[[], str]] = _request_ids().__next__
"""The next id for a request."""
