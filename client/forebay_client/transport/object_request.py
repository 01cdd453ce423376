"""The contract of transports: a request, its response, and what a transport raises.

    RequestSender ──> Transport.send(ObjectRequest) ──> ObjectResponse      any status, its body whole or as a stream
                                                    ├── TransportFallback   not by this way: the next one is tried
                                                    ├── TransportFailed     no response: may be repeated
                                                    ├── Unreachable         no connection: may be waited for
                                                    └── BodyInterrupted     a response that broke off: may be resumed

A transport knows nothing of retries, of errors of S3, or of other transports. Nobody changes a request or a response
once it is made; they are not frozen, since that would make each four times as slow to make.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from forebay_client.client_errors import InvalidRequest
from forebay_client.objects import checked_bucket, key_problem


@dataclass(frozen=True, slots=True)
class FilePart:
    """Bytes of a file that an upload sends; they must not change while it is sent."""

    path: Path
    start: int
    length: int


UploadContent: TypeAlias = bytes | memoryview | FilePart
"""The body of a request: it can be sent again."""


@dataclass(slots=True)
class ObjectRequest:
    """A request about an object, a bucket, or one of Forebay's resources, in S3's terms and not yet signed."""

    method: str
    bucket: str
    key: str | None = None
    """None: the bucket."""
    query: tuple[tuple[str, str], ...] = ()
    """Decoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case, those of metadata as S3 has them (`x-amz-meta-`); without range, length and signature."""
    span: tuple[int, int | None] | None = None
    """First byte and the one after the last (None: to the end) of a GET; None: the whole object."""
    content: UploadContent = b""
    buffer: memoryview | None = field(default=None, repr=False)
    """The memory that the body of a success is received into, if it fits; otherwise the transport allocates."""
    is_streamed: bool = False
    """Whether the body of a success is wanted as a BodyStream."""

    def __post_init__(self) -> None:
        # In S3's terms one without a key would be about the bucket: a DELETE of it, for instance. The others Forebay
        # refuses, so they are refused without it, too.
        if self.key is not None and (problem := key_problem(self.key)):
            raise InvalidRequest(problem, bucket=self.bucket, key=self.key)
        if self.bucket != "" or self.key is not None:  # else it is about all buckets
            checked_bucket(self.bucket)


class BodyStream(Protocol):
    """The body of a response while it arrives. Read to its end, it gives its connection back; closed before, it ends
    the connection."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fills `buffer` with at least a byte, or returns 0 at the end. Raises BodyInterrupted if it broke off."""
        ...

    def close(self) -> None:
        """Ends the reading; as often as one likes."""
        ...


@dataclass(slots=True)
class ObjectResponse:
    """A response with any status."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of a repeated one the values, joined by commas."""
    body: memoryview = field(default=memoryview(b""), repr=False)
    stream: BodyStream | None = field(default=None, repr=False)
    """The body of a success that is streamed, which `body` lacks."""
    has_checksum: bool = True
    """False: it is known that no header is a checksum."""

    @property
    def etag(self) -> str:
        """The ETag, quotes included; empty if there is none."""
        return self.headers.get("etag", "")


SendRequest: TypeAlias = Callable[[ObjectRequest], ObjectResponse]
"""Sends a request over whatever transport serves, repeated where that helps. Raises ClientError."""


class TransportFallback(Exception):
    """The request can't travel this way, and has had no effect. The argument is the reason, in a word: it is
    counted."""


class TransportFailed(Exception):
    """No response arrived; the argument says why. Whether the request had an effect is not known."""


class Unreachable(TransportFailed):
    """No connection to the server could be made."""

    def __init__(self, reason: str, *, may_wait: bool) -> None:
        """`may_wait`: whether the caller may try again, as the server has not been unreachable for long."""
        self.may_wait = may_wait
        super().__init__(reason)


class BodyInterrupted(Exception):
    """The body of a success broke off."""

    def __init__(self, reason: str, head: ObjectResponse, buffer: memoryview, received: int) -> None:
        """`head`: the response without its body. `buffer`: of the length of the body, of which `received` bytes are
        right."""
        self.head, self.buffer, self.received = head, buffer, received
        super().__init__(reason)


class Transport(Protocol):
    """A way to the server. Used by many threads at once, and in the child after a fork."""

    name: str
    """The name under which `Client.stats` counts its requests."""

    def carries(self, request: ObjectRequest) -> bool:
        """Whether this way is for such requests. False is no fallback, and not counted as one."""
        ...

    def send(self, request: ObjectRequest) -> ObjectResponse:
        """Signs the request, sends it and returns the response, whatever its status. The body of a response that is no
        success is never streamed, and bounded. Raises TransportFallback, TransportFailed, BodyInterrupted."""
        ...

    def close(self) -> None:
        """Closes what is open and idle. A later request opens anew."""
        ...
