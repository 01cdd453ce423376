"""Passes a signed raw request to a gateway in memory, without a socket."""

import time

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.request_record import RequestRecord
from forebay.protocol.exchange import Request
from forebay.request.gateway import Gateway
from harness.clients import RawRequest
from harness.memory_exchange import MemoryBody, MemoryReply


async def handle_raw_request(gateway: Gateway, request: RawRequest, now: float) -> tuple[MemoryReply, RequestRecord]:
    """The answer, and what came of it. `now`: when the request arrived."""
    fields = CIMultiDict(request.pairs)
    reply, record = MemoryReply(), RequestRecord(request.method, time.monotonic(), "0" * 16)
    body = MemoryBody([request.body] if request.body else [])
    asked = Request(
        request.method,
        request.target,
        fields.get("Host", ""),
        CIMultiDictProxy(fields),
        body,
        bool(request.body),
        now,
        "memory",
    )
    await gateway.handle(asked, reply, record)
    assert reply.finished or reply.aborted
    return reply, record
