"""The bodies of requests that Forebay answers itself: decoded, verified and bounded.

https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from forebay.core.errors import S3Error
from forebay.protocol.body.declared_checksums import Kind
from forebay.protocol.body.payload import PayloadReader, payload_form
from forebay.protocol.exchange import Request
from forebay.request.admission import Admission
from forebay.write.forward_request import ForwardRequest
from forebay.write.incoming_body import IncomingBody
from forebay.write.length_spooler import LengthSpooler


class VerifiedBodies:
    """Opens the bodies of admitted requests."""

    def __init__(self, length_spooler: LengthSpooler | None = None) -> None:
        """`length_spooler` None: a body must declare its length."""
        self._length_spooler = length_spooler

    @asynccontextmanager
    async def open(self, admission: Admission, request: Request, largest: int) -> AsyncIterator[IncomingBody]:
        """The body of a request, decoded and verified as it is read. Raises S3Error for more than `largest` bytes."""
        forward = ForwardRequest(request, admission.target, admission.operation, admission.signed, admission.identity)
        if self._length_spooler is not None:
            forward = await self._length_spooler.spool(forward)
        try:
            headers = forward.request.headers
            if "Content-Length" not in headers and "Transfer-Encoding" not in headers:
                raise S3Error("MissingContentLength")
            form = payload_form(headers, admission.signed)
            kind: Kind = "completion" if admission.operation.name == "CompleteMultipartUpload" else "content"
            reader = PayloadReader(form, admission.signed, headers, kind)
            if reader.length > largest:
                raise too_large(largest)
            yield IncomingBody(forward.request.body, form, reader)
        finally:
            if forward.spooled is not None:
                forward.spooled.release()


def too_large(most: int) -> S3Error:
    """The refusal of a body of more than `most` bytes."""
    return S3Error("EntityTooLarge", f"The body may have at most {most} bytes here.", MaxSizeAllowed=str(most))
