"""Measuring: a body that does not say how long it is, read to its end before it is sent.

    client ──chunks, no length──> hold ──> passing, writing      as if the client had said how long it is

S3 itself takes no such upload (501, https://github.com/JuliaWeb/HTTP.jl/issues/98), Ceph and Swift do
(https://github.com/ceph/ceph/pull/50235), and so does OSS. An origin that is told the length takes it in any case. What
is held is bounded by what a body may be, and by limits.held in all; it is verified when it is sent, as any other.

Not here: aws-chunks, which bring their decoded length along.
"""

import logging
from dataclasses import replace
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.protocol.body.payload import AwsChunked, never_right, payload_form
from forebay.protocol.exchange import Body, Request
from forebay.storage.spool import Spool, SpooledBody, SpoolFailed
from forebay.write.forward_request import ForwardRequest

_log = logging.getLogger(__name__)

_OBJECTS: Final = frozenset({"PutObject", "UploadPart"})


class LengthSpooler:
    """Measures bodies. `largest_body`, `largest_document`: bytes, of what becomes an object, and of anything else."""

    def __init__(self, spool: Spool, largest_body: int, largest_document: int) -> None:
        self._spool = spool
        self._largest_body = largest_body
        self._largest_document = largest_document

    async def spool(self, forward: ForwardRequest) -> ForwardRequest:
        """The parcel with a length, and a hold to be let go of, if it had none and a body to come. Raises S3Error,
        Throttled."""
        if forward.length is not None or not _has_unknown_length(forward):
            return forward
        most = self._largest_body if forward.operation.name in _OBJECTS else self._largest_document
        hold = self._spool.create()
        try:
            await _fill(hold, forward.request.body, most)
        except SpoolFailed as broken:
            hold.release()
            _log.error("a body of unknown length can't be held: %s", broken)
            raise S3Error("InternalError", "There is no room to hold a body of unknown length.") from broken
        except BaseException:
            hold.release()
            raise
        return replace(forward, request=with_body(forward.request, hold, hold.size), spooled=hold)


def with_body(request: Request, body: Body, length: int) -> Request:
    """The request with another body, whose length it says."""
    headers = CIMultiDict(request.headers)
    headers.popall("Transfer-Encoding", None)
    headers["Content-Length"] = str(length)
    return replace(request, headers=CIMultiDictProxy(headers), body=body, has_body=length > 0)


def _has_unknown_length(forward: ForwardRequest) -> bool:
    headers = forward.request.headers
    if not forward.request.has_body or "Transfer-Encoding" not in headers or "Content-Length" in headers:
        return False
    form = payload_form(headers, forward.signed)
    return not isinstance(form, AwsChunked) and not never_right(form)


async def _fill(hold: SpooledBody, body: Body, most: int) -> None:
    async for piece in body.pieces():
        await hold.reserve(len(piece))
        hold.append(piece)
        if hold.size > most:
            raise S3Error("EntityTooLarge", MaxSizeAllowed=str(most))
        await hold.spill()
