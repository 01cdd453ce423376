"""Admitted reads: the result of an admission of anybody, and an object reader's answer to it in memory."""

import time
from dataclasses import replace

from multidict import CIMultiDict

from forebay.core.request_record import RequestRecord
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import DEFAULTS, Rules
from forebay.protocol.exchange import EMPTY_BODY, Request
from forebay.protocol.operations import Access
from forebay.protocol.target import parse_target
from forebay.request.admission import Admission, GatewayPolicy, admit
from forebay.request.authentication import Keyring
from forebay.request.object_read import Bypass, ObjectReader
from harness.fetch_rig import BLOCK
from harness.memory_exchange import MemoryReply

ALL = Principal("all", (Grant(Pattern("**"), frozenset(Access)),))
POLICY = GatewayPolicy(Keyring({}, {}, ALL), Rules((), replace(DEFAULTS, block=BLOCK)), (), {})


def admission_of(method: str, target: str, **headers: str) -> Admission:
    fields = CIMultiDict({"Host": "localhost", **headers})
    return admit(POLICY, method, parse_target(target, "localhost", ()), fields, time.time())


async def answer(
    reader: ObjectReader, admission: Admission, reply: MemoryReply | None = None
) -> tuple[Bypass | None, MemoryReply, RequestRecord]:
    reply = reply or MemoryReply()
    record = RequestRecord(admission.method, 0.0, "ID")
    request = Request(admission.method, "/", "localhost", admission.headers, EMPTY_BODY, False, 0.0, "")
    return await reader.answer(admission, request, reply, record), reply, record
