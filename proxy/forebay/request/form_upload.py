"""Posting: a form upload to a bucket becomes the PutObject that it asks for, and is answered as a form.

    fields ─> who signed the policy ─> does the policy allow the form ─> authorise ─> rule ─> writing

The fields come before the file, so all of that is decided before the file is read. The file then streams through like
any other upload, and is staged, invalidated and warmed like one.

An origin wants to know the length of a body beforehand, and a form only tells its own. The difference is what follows
the file: as a rule nothing but the closing boundary. A form that is small is read to its end, and its length is then
known; of a larger one the rule is taken for granted, and a form that breaks it (with fields after the file) is refused:
the origin has then not got the whole of the body, and so nothing.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.buffers import Buffer
from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.core.request_record import RequestRecord
from forebay.policy.access import authorise
from forebay.policy.rules import Rules
from forebay.protocol.exchange import BytesBody, Reply, Request
from forebay.protocol.forms.form_fields import key_of, put_headers, success_answer
from forebay.protocol.forms.form_reader import FormReader, boundary_of
from forebay.protocol.forms.post_policy import read_policy
from forebay.protocol.header_map import single
from forebay.protocol.operations import classify
from forebay.protocol.signatures.sigv4_claim import Anonymous, read_claim
from forebay.protocol.target import Target
from forebay.request.authentication import Keyring, authenticate_form
from forebay.write.forwarder import ForwardRequest
from forebay.write.object_write import ObjectWriter

MAX_BUFFERED: Final = 1 << 20
"""Bytes of a form from the file on that are read before they are sent."""


def is_form(request: Request, target: Target) -> bool:
    """Whether a request is a form upload to a bucket."""
    if request.method != "POST" or target.bucket is None or target.key is not None or target.query:
        return False
    return boundary_of(single(request.headers, "content-type") or "") is not None


class FormUpload:
    """Carries out form uploads."""

    def __init__(self, writing: ObjectWriter) -> None:
        self._writer = writing

    async def answer(
        self, request: Request, target: Target, keyring: Keyring, rules: Rules, reply: Reply, record: RequestRecord
    ) -> None:
        """Carry out the form upload that `is_form` found. Raises S3Error, OriginError, Throttled."""
        record.operation = "PostObject"
        record.step = "authenticate"
        length = _length(request)
        if keyring.open_principal is None and not isinstance(read_claim(target, request.headers), Anonymous):
            raise S3Error("InvalidArgument", "Only one way of signing is allowed: a form is signed by its policy.")
        form = FormReader(boundary_of(single(request.headers, "content-type") or "") or "")
        pieces = request.body.pieces()
        first = await _to_file(form, pieces)
        principal = authenticate_form(keyring, request.headers, form.fields)
        record.principal = principal.id
        bucket, key = target.bucket or "", key_of(form.fields, form.filename)
        record.key = key
        body, size = await _file(form, first, pieces, length - form.before_file)
        if keyring.open_principal is None:
            policy = read_policy(form.fields["policy"])
            policy.check(form.fields, bucket, key, size, request.received_at)

        record.step = "authorise"
        fields = (*put_headers(form.fields), ("Content-Length", str(size)))
        headers = CIMultiDictProxy(CIMultiDict(fields))
        put_target = replace(target, key=key)
        put = replace(request, method="PUT", headers=headers, body=body, has_body=size > 0)
        operation = classify("PUT", put_target, headers)
        authorise(principal, operation, put_target)
        record.step = "rule"
        decision = rules.decide(put_target.name)
        record.rule, record.cache = decision.rule, "bypass"
        answered = FormReply(reply, form.fields, put_target.name)
        parcel = ForwardRequest(put, put_target, operation, None, keyring.origin_identities.get(principal.id))
        await self._writer.write(parcel, principal, decision, answered, record)


@dataclass(slots=True)
class FormReply:
    """The answer to a PutObject, turned into that to a form where it is a success. Implements
    forebay.protocol.exchange.Reply."""

    inner: Reply
    fields: Mapping[str, str]
    name: ObjectName
    _document: bytes | None = None

    @property
    def started(self) -> bool:
        return self.inner.started

    async def start(self, status: int, headers: HeaderPairs, length: int | None) -> None:
        if status != 200:
            await self.inner.start(status, headers, length)
            return
        etag = next((value for name, value in headers if name.lower() == "etag"), "")
        told, added, self._document = success_answer(self.fields, self.name, etag)
        kept = tuple(pair for pair in headers if pair[0].lower() not in {"content-length", "content-type", "location"})
        await self.inner.start(told, (*kept, *added), None if told == 204 else len(self._document))

    async def write(self, buffer: Buffer | bytes) -> None:
        if self._document is None:
            await self.inner.write(buffer)

    async def finish(self) -> None:
        if self._document:
            await self.inner.write(self._document)
        await self.inner.finish()

    def abort(self) -> None:
        self.inner.abort()


@dataclass(frozen=True, slots=True)
class StreamedFile:
    """The file of a form that is still coming. Implements forebay.protocol.exchange.Body."""

    form: FormReader
    first: bytes
    rest: AsyncIterator[bytes]
    size: int

    async def pieces(self) -> AsyncIterator[bytes]:
        """Its bytes. The last are given only when the end of the form is where it was expected."""
        sent, piece = 0, self.first
        while True:
            sent += len(piece)
            if sent > self.size or (self.form.ended and sent != self.size):
                # The last piece was not given, so what was is not the whole.
                message = "In a large form the file must be the last field, followed by the closing boundary alone."
                raise S3Error("MalformedPOSTRequest", message)
            if piece:
                yield piece
            if self.form.ended:
                return
            received = await anext(self.rest, None)
            if received is None:
                self.form.close()
                return
            piece = self.form.feed(received)


async def _to_file(form: FormReader, pieces: AsyncIterator[bytes]) -> bytes:
    """Read up to the file; the first bytes of it."""
    async for piece in pieces:
        first = form.feed(piece)
        if form.at_file:
            return first
    form.close()
    return b""


async def _file(
    form: FormReader, first: bytes, pieces: AsyncIterator[bytes], remaining: int
) -> tuple[BytesBody | StreamedFile, int]:
    """The file and its size, given the bytes that remain of the form from the file on."""
    if remaining > MAX_BUFFERED:
        size = remaining - form.usual_end
        return StreamedFile(form, first, pieces, size), size
    content = bytearray(first)
    while not form.ended:
        received = await anext(pieces, None)
        if received is None:
            form.close()
            break
        content += form.feed(received)
    return BytesBody(bytes(content)), len(content)


def _length(request: Request) -> int:
    value = single(request.headers, "content-length")
    if value is None:
        raise S3Error("MissingContentLength")
    if not (value.isascii() and value.isdigit() and len(value) <= 19):
        raise S3Error("InvalidArgument", "Content-Length is not a length.", ArgumentName="Content-Length")
    return int(value)
