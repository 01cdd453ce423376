"""A batch delete that lists Forebay's own resources, keys below `.forebay/`, by themselves or among objects.

    DeleteObjects ──┬── objects    ──> the origin, or the journal: a batch of these alone ──> its answer, kept
                    └── resources  ──> each by itself, as by its own DELETE ────────────────> joined to it

The objects come first: where their batch fails as a whole, that is the answer, and no resource is removed. The origin
hears of no key below `.forebay/`, and a client gets one result for each key that it has listed.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.buffers import Buffer
from forebay.core.errors import OriginBroken, S3Error
from forebay.core.heads import HeaderPairs
from forebay.protocol.exchange import Reply
from forebay.protocol.xml.s3_documents import ListedKey, deletion_results
from forebay.write.forward_request import WriteContext

RemoveResource: TypeAlias = Callable[[ListedKey], Awaitable[S3Error | None]]
"""Removes one of Forebay's own resources, and returns why it can't be."""

_OF_THE_DOCUMENT: Final = ("x-amz-checksum-", "x-amz-sdk-checksum-", "x-amz-trailer", "content-md5")
_XML: Final[HeaderPairs] = (("Content-Type", "application/xml"),)


class BufferedReply:
    """An answer that is kept until the answers to the resources are known. Implements Reply."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: HeaderPairs = ()
        self.body = bytearray()
        self.is_broken = False

    @property
    def started(self) -> bool:
        """Whether it has begun."""
        return self.status != 0

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:  # as it comes
        """Keeps the head."""
        self.status, self.headers = status, headers

    async def write(self, buffer: Buffer | bytes) -> None:
        """Keeps a piece."""
        self.body += buffer

    async def finish(self) -> None:
        """Does nothing: it is sent later."""

    def abort(self) -> None:
        """Notes that the response is not complete."""
        self.is_broken = True


def without_resources(context: WriteContext, reply: Reply) -> WriteContext:
    """Returns the batch delete without Forebay's own resources, as it is sent to the origin. Its document is not the
    one that the client has signed, so the headers about the document are left out."""
    request = context.forward.request
    headers = CIMultiDict(
        (name, value) for name, value in request.headers.items() if not name.lower().startswith(_OF_THE_DOCUMENT)
    )
    headers["Content-MD5"] = "-"  # of what is sent (write.forwarder)
    forward = context.forward._replace(request=request._replace(headers=CIMultiDictProxy(headers)))
    return context._replace(forward=forward, reply=reply)


async def answer_resources(
    context: WriteContext, listed: Sequence[ListedKey], remove: RemoveResource, objects: BufferedReply, *, quiet: bool
) -> None:
    """Removes the resources that a batch lists, and answers it. `objects`: how its objects were answered; not started:
    there are none."""
    if objects.is_broken:
        raise OriginBroken("the answer to a batch delete broke off")
    headers = tuple(pair for pair in objects.headers if pair[0].lower() not in {"content-length", "content-type"})
    if not objects.started:
        headers = (("x-amz-request-id", context.record.request_id),)
    before = bytes(objects.body) if objects.started else None
    if objects.started and (objects.status != 200 or deletion_results(before, ()) is None):
        await _send(context, objects.status, objects.headers, bytes(objects.body))
        return
    results: list[tuple[str, S3Error | None]] = []
    for each in listed:
        error = await remove(each)
        if error is not None or not quiet:
            results.append((each.key, error))
    document = deletion_results(before, results) or b""
    await _send(context, 200, (*headers, *_XML), document)


async def _send(context: WriteContext, status: int, headers: HeaderPairs, body: bytes) -> None:
    await context.reply.start(status, headers, len(body))
    if body:
        await context.reply.write(body)
    await context.reply.finish()
