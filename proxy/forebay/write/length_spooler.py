"""The length spooler: a body of unknown length is read to its end before it is sent.

    client ──chunks, no length──> spool ──> forwarder, writer      as if the client had announced the length

S3 refuses such an upload (501, https://github.com/JuliaWeb/HTTP.jl/issues/98), Ceph and Swift accept it
(https://github.com/ceph/ceph/pull/50235), and so does OSS. An origin that is sent the length accepts it in any case. A
spooled body is bounded by the size limit of bodies, and all of them by limits.held; it is verified when it is sent, as
any other.

Not for aws-chunked bodies, which announce their decoded length.
"""

from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.protocol.body.payload import AwsChunkedPayload, can_never_verify, payload_form
from forebay.protocol.exchange import Body, Request
from forebay.storage.spool import Spool
from forebay.storage.spooled_body import SPILL_SIZE, SpooledBody
from forebay.write.forward_request import ForwardRequest

_OBJECTS: Final = frozenset({"PutObject", "UploadPart"})


class LengthSpooler:
    """Spools bodies of unknown length. `largest_body`: bytes of an object's body; `largest_document`: of any other
    body."""

    def __init__(self, spool: Spool, largest_body: int, largest_document: int) -> None:
        self._spool = spool
        self._largest_body = largest_body
        self._largest_document = largest_document

    async def spool(self, forward: ForwardRequest) -> ForwardRequest:
        """Returns the request with its body spooled and a length, if it has a body of unknown length; else the same
        request. The caller releases the spooled body. Raises S3Error, Throttled, SpoolFull,
        SpoolFailed."""
        if not _has_unknown_length(forward):
            return forward
        limit = self._largest_body if forward.operation.name in _OBJECTS else self._largest_document
        spooled = self._spool.create()
        try:
            await _fill(spooled, forward.request.body, limit)
        except BaseException:
            spooled.release()
            raise
        return forward._replace(request=with_body(forward.request, spooled, spooled.size), spooled=spooled)


def with_body(request: Request, body: Body, length: int) -> Request:
    """Returns the request with another body, of `length` bytes."""
    headers = CIMultiDict(request.headers)
    headers.popall("Transfer-Encoding", None)
    headers["Content-Length"] = str(length)
    return request._replace(headers=CIMultiDictProxy(headers), body=body, has_body=length > 0)


def _has_unknown_length(forward: ForwardRequest) -> bool:
    headers = forward.request.headers
    if not forward.request.has_body or "Transfer-Encoding" not in headers or "Content-Length" in headers:
        return False
    form = payload_form(headers, forward.signed)
    return not isinstance(form, AwsChunkedPayload) and not can_never_verify(form)


async def _fill(spooled: SpooledBody, body: Body, limit: int) -> None:
    async for piece in body.pieces():
        await spooled.reserve(len(piece))
        spooled.append(piece)
        if spooled.size > limit:
            raise S3Error("EntityTooLarge", MaxSizeAllowed=str(limit))
        await spooled.spill(least=SPILL_SIZE)
