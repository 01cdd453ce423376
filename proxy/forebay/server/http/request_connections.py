"""The interface of a connection to the service that answers its requests (forebay.server.http.request_service).

RequestConnection    its request was parsed by aiohttp
ReadConnection       its read was admitted by the fast lane
UploadConnection     its small PUT is read past aiohttp
BatchChannel         its batch came in a frame of a read channel
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiohttp.streams import StreamReader

from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.protocol.batch.batch_output import BatchOutput
from forebay.protocol.exchange import ObjectReply
from forebay.server.fastpath.direct_reply import DirectReply, ReplyConnection


class ReadConnection(Protocol):
    """The connection of a read, as the request service uses it."""

    peer: str
    secure: bool

    def make_reply(
        self, record: RequestRecord, is_last: Callable[[], bool], isolation: HeaderPairs, *, is_head: bool
    ) -> DirectReply:
        """The reply to a `read` that this connection began."""
        ...

    def read_answered(self, *, keep_alive: bool) -> None:
        """The request that this connection began has been answered; `keep_alive`: another request may follow."""


class RequestConnection(ReadConnection, ReplyConnection, Protocol):
    """The connection of any request, as the request service uses it."""

    @property
    def is_pipelined(self) -> bool:
        """Whether more requests have been parsed than are being answered."""
        ...

    @property
    def came_alone(self) -> bool:
        """Whether nothing has come behind the head of the request."""
        ...

    def release_buffer(self, content: StreamReader) -> None:
        """Note that no more of this body is read."""


class UploadConnection(ReadConnection, Protocol):
    """The connection of a small PUT, as the request service uses it."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after the client has left."""
        ...


class AbortableReply(ObjectReply, Protocol):
    """A reply that knows whether it was aborted."""

    aborted: bool


class BatchChannel(Protocol):
    """The channel of a batch, as the request service uses it."""

    peer: str

    def make_batch_reply(self, record: RequestRecord) -> tuple[BatchOutput, AbortableReply]:
        """The output of the batch, and the reply for its refusal."""
        ...

    def read_answered(self, *, keep_alive: bool) -> None:
        """The batch has been answered; `keep_alive`: another request may follow."""
