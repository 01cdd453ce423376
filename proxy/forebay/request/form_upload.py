"""Form uploads: a browser's POST to a bucket becomes the PutObject it stands for, and is answered as a form.

    fields ──> signature of the policy ──> policy allows the form ──> authorise ──> rule ──> write

The fields precede the file, so all of that is decided before the file is read. The file then streams like any other
upload: it is staged, invalidated and warmed like one.

An origin needs the length of a body beforehand, and a form declares only its own. The difference is what follows the
file: normally the closing boundary alone. A form of at most MAX_BUFFERED bytes from the file on is read to its end, so
its length is known. For a larger one the normal end is assumed; a form with fields after the file is refused, and the
origin, which has not received the whole body, stores nothing.

https://docs.aws.amazon.com/AmazonS3/latest/API/RESTObjectPOST.html
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.core.request_record import RequestRecord
from forebay.core.requester import requester
from forebay.protocol.exchange import BytesBody, Reply, Request
from forebay.protocol.forms.form_fields import form_key, put_headers, success_response
from forebay.protocol.forms.form_reader import FormReader, boundary_of
from forebay.protocol.forms.post_policy import read_policy
from forebay.protocol.header_map import single
from forebay.protocol.signatures.sigv4_claim import AnonymousClaim, read_claim
from forebay.protocol.target import Target
from forebay.request.admission import GatewayPolicy, admit_form
from forebay.request.authentication import authenticate_form
from forebay.request.document_reply import DocumentReply
from forebay.write.forward_request import ForwardRequest, WriteContext
from forebay.write.object_write import ObjectWriter

MAX_BUFFERED: Final = 1 << 20
"""Bytes from the file on up to which a form is read whole before it is sent."""
_REPLACED: Final = ("content-length", "content-type", "location")


def is_form(request: Request, target: Target) -> bool:
    """Whether a request is a form upload to a bucket."""
    if request.method != "POST" or target.bucket is None or target.key is not None or target.query:
        return False
    return _boundary(request) is not None


def _boundary(request: Request) -> str | None:
    return boundary_of(single(request.headers, "content-type") or "")


class FormUpload:
    """Carries out form uploads."""

    def __init__(self, writer: ObjectWriter) -> None:
        self._writer = writer

    async def answer(
        self, policy: GatewayPolicy, request: Request, target: Target, reply: Reply, record: RequestRecord
    ) -> None:
        """Carries out a request for which `is_form` is true. Raises S3Error, OriginError, Throttled."""
        keyring = policy.keyring
        record.operation = "PostObject"
        record.step = "authenticate"
        length = _content_length(request)
        if keyring.open_principal is None and not isinstance(read_claim(target, request.headers), AnonymousClaim):
            raise S3Error("InvalidArgument", "Only one way of signing is allowed: a form is signed by its policy.")
        form = FormReader(_boundary(request) or "")
        pieces = request.body.pieces()
        first = await _read_fields(form, pieces)
        principal = authenticate_form(keyring, request.headers, form.fields)
        record.principal = principal.id
        requester.set(principal.id)
        bucket, key = target.bucket or "", form_key(form.fields, form.filename)
        record.key = key
        body, size = await _open_file(form, first, pieces, length - form.before_file)
        if keyring.open_principal is None and principal is not keyring.anonymous:
            read_policy(form.fields["policy"]).check(form.fields, bucket, key, size, request.received_at)

        record.step = "authorise"
        headers = CIMultiDictProxy(CIMultiDict((*put_headers(form.fields), ("Content-Length", str(size)))))
        admission = admit_form(policy, principal, target._replace(key=key), headers)
        decision, name = admission.decision, admission.target.name
        record.step, record.rule, record.cache = "rule", decision.rule if decision is not None else "", "bypass"
        put = request._replace(method="PUT", headers=headers, body=body, has_body=size > 0)
        forward = ForwardRequest(put, admission.target, admission.operation, None, admission.identity)
        context = WriteContext(forward, principal, decision, form_reply(reply, form.fields, name), record)
        await self._writer.write(context)


def form_reply(inner: Reply, fields: Mapping[str, str], name: ObjectName) -> DocumentReply:
    """Turns a successful response to PutObject into the response to the form."""
    return DocumentReply(inner, partial(success_response, fields, name), _REPLACED)


@dataclass(frozen=True, slots=True)
class StreamedFile:
    """The file of a form that is still being received. Implements forebay.protocol.exchange.Body."""

    form: FormReader
    first: bytes
    rest: AsyncIterator[bytes]
    size: int

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes of the file; the last only after the form ended where it was expected to."""
        sent, piece = 0, self.first
        while True:
            sent += len(piece)
            if sent > self.size or (self.form.is_complete and sent != self.size):
                # The last piece has not been yielded, so the origin has not received the whole body.
                message = "In a large form the file must be the last field, followed by the closing boundary alone."
                raise S3Error("MalformedPOSTRequest", message)
            if piece:
                yield piece
            received = await anext(self.rest, None)
            if received is None:
                self.form.close()
                return
            piece = self.form.feed(received)


async def _read_fields(form: FormReader, pieces: AsyncIterator[bytes]) -> bytes:
    """Reads up to the file. Returns its first bytes."""
    async for piece in pieces:
        first = form.feed(piece)
        if form.is_at_file:
            return first
    form.close()
    return b""


async def _open_file(
    form: FormReader, first: bytes, pieces: AsyncIterator[bytes], remaining: int
) -> tuple[BytesBody | StreamedFile, int]:
    """The file and its size. `remaining`: bytes of the form from the file on."""
    if remaining > MAX_BUFFERED:
        size = remaining - form.usual_epilogue_size
        return StreamedFile(form, first, pieces, size), size
    content = bytearray(first)
    while not form.is_complete:
        received = await anext(pieces, None)
        if received is None:
            form.close()
            break
        content += form.feed(received)
    return BytesBody(bytes(content)), len(content)


def _content_length(request: Request) -> int:
    value = single(request.headers, "content-length")
    if value is None:
        raise S3Error("MissingContentLength")
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        raise S3Error("InvalidArgument", "Content-Length is not a length.", ArgumentName="Content-Length")
    return int(value)
