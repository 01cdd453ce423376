"""Connections, as the modules use them that answer their requests.

RequestConnection    its request was parsed by aiohttp                (forebay.server.http.parsed_requests)
ReadConnection       its read was admitted by the fast lane           (forebay.server.fastpath.admitted_reads)
UploadConnection     its small PUT is read past aiohttp               (forebay.server.http.small_uploads)
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from aiohttp.streams import StreamReader

from forebay.core.heads import HeaderPairs
from forebay.core.request_record import RequestRecord
from forebay.server.fastpath.direct_reply import DirectReply, ReplyConnection


class ReadConnection(Protocol):
    """The connection of an admitted read."""

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
    """The connection of any request."""

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
    """The connection of a small PUT."""

    @property
    def transport(self) -> asyncio.Transport | None:
        """None after the client has left."""
        ...
