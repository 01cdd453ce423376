"""Admitted writes: prepares each for the writer, which gets a PUT, POST or DELETE in S3's terms, with a length.

a client of OSS   ──> its document or its conditions in S3's form   (request.oss_frontend)
a client of S3    ──> a body of unknown length is spooled           (write.length_spooler)
a copy of a member of a pack ──> the PUT of its bytes               (request.packed_copies)
a write to the key of a member, with a condition ──> with one of the origin's   (request.packed_conditions)
a batch delete of resources  ──> that of the objects it lists       (write.reserved_deletions)
"""

from forebay.core.request_record import RequestRecord
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.operations import Effect
from forebay.request.admission import Admission
from forebay.request.oss_frontend import OssFrontend
from forebay.request.packed_conditions import PackedConditions
from forebay.request.packed_copies import COPIES, PackedCopies
from forebay.request.resource_router import ResourceRouter
from forebay.write.forward_request import ForwardRequest, WriteContext
from forebay.write.length_spooler import LengthSpooler
from forebay.write.object_write import ObjectWriter


class AdmittedWriter:
    """Makes writes of admitted requests. Keeps no state."""

    def __init__(
        self,
        writer: ObjectWriter,
        oss_frontend: OssFrontend,
        copies: PackedCopies,
        conditions: PackedConditions,
        resources: ResourceRouter,
        length_spooler: LengthSpooler | None = None,
    ) -> None:
        """`length_spooler` None: a body in S3's dialect must declare its length."""
        self._writer = writer
        self._oss_frontend = oss_frontend
        self._copies = copies
        self._conditions = conditions
        self._resources = resources
        self._length_spooler = length_spooler

    async def answer(self, admission: Admission, request: Request, reply: Reply, record: RequestRecord) -> None:
        """Carries the write out, and answers it. Raises S3Error, OriginError, Throttled, SpoolFull, and ConnectionError
        for a client that has left."""
        record.cache = "bypass"
        forward = ForwardRequest(request, admission.target, admission.operation, admission.signed, admission.identity)
        if request.oss_request is not None:
            forward = await self._oss_frontend.prepare_write(forward)
        elif self._length_spooler is not None:
            forward = await self._length_spooler.spool(forward)
        context = WriteContext(forward, admission.principal, admission.decision, reply, record)
        if admission.operation.name in COPIES:
            context = await self._copies.as_write(context)
        context = await self._conditions.as_write(context)
        lists_keys = admission.operation.effect is Effect.LISTED_KEYS
        await self._writer.write(context, self._resources.remover(admission) if lists_keys else None)
