"""Calls the fast lane in memory: templates that it knows, and responses in a comparable form."""

import os
import re
import time
from base64 import b64decode
from collections.abc import Callable
from typing import TypeAlias

from forebay.core.fair_semaphore import SemaphoreShare
from forebay.request.admission import Admission
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.fast_lane import FastLane, HitSources, HitTelemetry
from forebay.server.fastpath.lane_answer import AdmittedRead, HitResponse
from harness.raw_connection import RawAnswer
from harness.rig import Rig

LaneResponse: TypeAlias = tuple[int, list[str], bytes, bytes]
"""Status, headers, body, and the document that OSS has in a header."""


def fresh_lane(rig: Rig, clock: Callable[[], float] = time.time) -> FastLane:
    """A new fast lane over the worker's parts. It has no templates, so it parses first requests in full."""
    parts = rig.parts
    hits = HitSources(parts.metadata.resolver, parts.storage.tiers, SemaphoreShare(parts.storage.budget, 2))
    return FastLane(parts.requests.gateway, hits, HitTelemetry(parts.context.metrics, None), clock)


def has_template(rig: Rig, caller: ClientState, wire: bytes) -> bool:
    """Whether the connection has a head template for the request and a prepared response for it."""
    read = caller.template.match(wire) if caller.template is not None else None
    if read is None or caller.template is None:
        return False
    key = caller.template.key + read[0]
    return any(key in table.by_key for table in rig.parts.storage.tiers.memory.attachments)


def lane_response(answer: HitResponse | AdmittedRead | None) -> LaneResponse | tuple[str, str, Admission] | None:
    """A fast-lane response without its volatile headers; for a read left to the full lane, its admission without the
    signature."""
    if answer is None or isinstance(answer, AdmittedRead):
        return answer and (answer.method, answer.raw_target, answer.admission._replace(signed=None))
    head, _, body = answer[0].partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    body += b"".join(answer[1])
    body += b"".join(os.pread(file.fd, stop - start, start) for file, start, stop, _ in answer[2])
    return int(line.split()[1]), [field for field in fields if not _is_volatile(field)], body, b""


def socket_response(answer: RawAnswer, method: str = "GET") -> LaneResponse:
    """The same form of a response that came over a socket."""
    fields = [f"{name}: {value}" for name, value in answer.pairs]
    body = b"" if method == "HEAD" else answer.body
    documents = body, b64decode(answer.headers.get("x-oss-err", ""))
    shown = [re.sub(rb"<(RequestId|ServerTime)>[^<]*<", rb"<\1><", document) for document in documents]
    return answer.status, [field for field in fields if not _is_volatile(field)], shown[0], shown[1]


def _is_volatile(field: str) -> bool:
    return re.match(r"(date|x-(amz|oss)-request-id|x-oss-err):", field, re.IGNORECASE) is not None
