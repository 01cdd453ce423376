"""Batches: `POST /<bucket>/.forebay/batch` reads many objects in one round trip.

    body: JSON (forebay.protocol.batch.batch_request)  ──>  one TAR (forebay.protocol.batch.tar_entries)

The batch is signed and admitted as any request; each object that it lists is then admitted by itself, and is read as by
a GET of its own: same grants, rules, freshness, write-back, owners, statistics. So a batch shows nothing that its GETs
would not show. An entry that can't be read is marked, and the others are answered.

The length is not known before the last object is, so the body is chunked. One that ends without the end of the TAR, or
of the chunks, was broken off. A transport with a form of its own for the answer brings that along
(`Request.batch_output`).
"""

import asyncio
from contextlib import closing
from typing import Final

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.origin.origin_checks import OriginChecks
from forebay.protocol.batch.batch_request import MAX_BODY, parse_batch
from forebay.protocol.exchange import Reply, Request
from forebay.request.admission import Admission
from forebay.request.batch.batch_run import BatchRun, BatchServices
from forebay.request.batch.member_reads import ReadObject
from forebay.request.batch.tar_output import TarOutput
from forebay.request.verified_bodies import VerifiedBodies

ENTRIES: Final = "x-forebay-batch-entries"
"""The header with the number of entries."""
_PARSED_HERE: Final = 32 << 10
"""Bytes of JSON that are parsed in the loop; more in a thread."""


class BatchReader:
    """Answers batches. Keeps no state between them."""

    def __init__(self, services: BatchServices, bodies: VerifiedBodies, checks: OriginChecks) -> None:
        self._services = services
        self._bodies = bodies
        self._checks = checks

    async def answer(
        self, admission: Admission, request: Request, reply: Reply, record: RequestRecord, read: ReadObject
    ) -> None:
        """Answers an admitted batch; `read` answers the GET of an entry. Raises S3Error, OriginError, Throttled,
        ConnectionError."""
        await self._checks.check_owner(admission.target.bucket or "", None, request.headers, admission.identity)
        share = self._services.share
        async with self._bodies.open(admission, request, MAX_BODY) as body:
            size = body.reader.length
            if not share.try_acquire(size):
                raise S3Error("SlowDown", "There is no memory for another batch now.")
            try:
                document = bytearray()
                async for piece in body.pieces():
                    document += piece
                small = len(document) <= _PARSED_HERE
                batch = parse_batch(document) if small else await asyncio.to_thread(parse_batch, document)
            finally:
                share.release(size)
        headers: HeaderPairs = (
            ("Content-Type", "application/x-tar"),
            ("x-amz-request-id", record.request_id),
            (ENTRIES, str(len(batch.entries))),
        )
        record.step = "reply"
        output = request.batch_output
        if output is not None:
            await BatchRun(self._services, admission, request, batch, output, record, read).stream()
            return
        tar = TarOutput(reply, headers, share, request.chunks, shows_index=batch.as_they_come)
        with closing(tar):
            await BatchRun(self._services, admission, request, batch, tar, record, read).stream()
