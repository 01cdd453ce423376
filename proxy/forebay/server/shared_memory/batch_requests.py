"""Batches of reads that come as messages of read channels: the request of each, and its end.

head and body of a message ──> a batch? ──> Request, output, reply ──> request service ──> read_answered
                                 └─no──> declined: the client sends it over HTTP
"""

import time
from typing import Protocol

from forebay.core.errors import S3Error
from forebay.core.names import BATCH_KEY
from forebay.core.request_record import RequestRecord, new_request_id
from forebay.protocol.batch.batch_output import BatchOutput
from forebay.protocol.exchange import BytesBody, Request
from forebay.protocol.target import parse_target
from forebay.server.fastpath.request_head import parse_request_head
from forebay.server.request_service import AbortableReply, RequestService


class BatchChannel(Protocol):
    """The channel of a batch."""

    peer: str

    def make_batch_reply(self, record: RequestRecord) -> tuple[BatchOutput, AbortableReply]:
        """The output of the batch, and the reply for its refusal."""
        ...

    def read_answered(self, *, keep_alive: bool) -> None:
        """The batch has been answered; `keep_alive`: another request may follow."""


class BatchRequests:
    """See the module. One for each worker."""

    __slots__ = ("_requests",)

    def __init__(self, requests: RequestService) -> None:
        self._requests = requests

    def begin(self, head: bytes, document: bytes, channel: BatchChannel) -> bool:
        """Answers the batch with this head and body in a task; `channel.read_answered` follows. Returns False, and does
        nothing, if the request is no batch."""
        requests = self._requests
        parsed = None if requests.is_draining else parse_request_head(head, is_post=True)
        if parsed is None:
            return False
        headers, policy = parsed.headers, requests.policy
        try:
            target = parse_target(parsed.raw_target, headers["Host"], policy.domains, policy.cnames)
        except S3Error:
            return False
        if target.key != BATCH_KEY:
            return False
        headers["Content-Length"] = str(len(document))  # the head had none
        record = RequestRecord("POST", time.monotonic(), new_request_id(), peer=channel.peer)
        record.received = len(document)
        output, reply = channel.make_batch_reply(record)
        request = Request(
            "POST",
            parsed.raw_target,
            headers["Host"],
            headers,
            BytesBody(document),
            has_body=True,
            received_at=time.time(),
            peer=channel.peer,
            batch_output=output,
        )
        requests.count_in_flight(1)
        requests.spawn(self._answer(request, reply, record, channel), "batch")
        return True

    async def _answer(
        self, request: Request, reply: AbortableReply, record: RequestRecord, channel: BatchChannel
    ) -> None:
        try:
            await self._requests.answer(request, reply, record)
        finally:
            self._requests.finish(record)
            channel.read_answered(keep_alive=not reply.aborted)
