"""A request on its way to the origin, and the context of a write.

A ForwardRequest exists only after its request was parsed, authenticated and authorised. It says what is sent and in
whose name; a WriteContext adds what was decided about the write and where its answer goes.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from forebay.core.names import UploadKey
from forebay.core.request_record import RequestRecord
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.grants import Principal
from forebay.policy.rules import Decision
from forebay.protocol.exchange import Reply, Request
from forebay.protocol.operations import Operation
from forebay.protocol.signatures.verified_signature import Signed
from forebay.protocol.target import Target
from forebay.storage.spooled_body import SpooledBody


class ForwardRequest(NamedTuple):
    """A request that is forwarded to the origin."""

    request: Request
    target: Target
    operation: Operation
    signed: Signed | None
    """None in open mode, and for an anonymous request."""
    identity: OriginIdentity | None = None
    """The identity that signs the request to the origin; None: Forebay's own."""
    spooled: SpooledBody | None = None
    """The spooled body, where its length was unknown. ObjectWriter releases it."""

    @property
    def length(self) -> int | None:
        """The body's announced length in bytes; None if Content-Length is missing or malformed."""
        return self._length_of("Content-Length")

    def _length_of(self, header: str) -> int | None:
        value = self.request.headers.get(header, "")
        return int(value) if value.isascii() and value.isdecimal() and len(value) < 19 else None

    @property
    def content_size(self) -> int | None:
        """Bytes of the content, as far as they are announced: with aws-chunked framing about as many as the body's, and
        where Content-Length is missing (botocore over TLS), x-amz-decoded-content-length. None: they are not."""
        header = "Content-Length" if "Content-Length" in self.request.headers else "X-Amz-Decoded-Content-Length"
        return self._length_of(header)

    @property
    def speaks_oss(self) -> bool:
        """Whether the client speaks OSS."""
        return self.request.oss_request is not None

    @property
    def upload(self) -> UploadKey:
        """The multipart upload that is addressed; its id is empty if the query names none."""
        return UploadKey(self.target.name, self.target.param("uploadId") or "")

    @property
    def part_number(self) -> int | None:
        """The part number in the query; None if it is missing or malformed."""
        number = self.target.param("partNumber") or ""
        return int(number) if number.isascii() and number.isdecimal() and len(number) <= 5 else None


class WriteContext(NamedTuple):
    """One write: the request to forward, the decisions about it, and the reply for its answer."""

    forward: ForwardRequest
    principal: Principal
    decision: Decision | None
    """The rules' decision for the object; None for a bucket."""
    reply: Reply
    record: RequestRecord
    verify: Callable[[], Awaitable[None]] | None = None
    """Raises S3Error where a condition, which was evaluated here, does not hold any more. To be called when no other
    write of the key is under way that this node carries. None: there is none."""
