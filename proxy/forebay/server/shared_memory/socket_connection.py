"""A connection of the Unix socket: plain HTTP as on any listener, until its client switches it to a read channel.

UPGRADE as the first bytes of an idle connection, whole ──> a read channel
anything else                                           ──> HTTP

Any process of the machine that may open the socket may open it often. So its connections are a share of all that there
may be; one more is refused, as beyond the limit of all. Who is refused reads over TCP, which misses that share at most.
"""

import asyncio
from typing import TYPE_CHECKING

from forebay.protocol.channel_frames import SWITCHED, UPGRADE
from forebay.server.http.client_connection import ClientConnection
from forebay.server.http.connection_services import ConnectionServices
from forebay.server.resource_limits import SOCKET_SHARE
from forebay.server.shared_memory.channel_writer import ChannelServices
from forebay.server.shared_memory.read_channel import ReadChannel

if TYPE_CHECKING:
    from aiohttp import web


class SocketConnection(ClientConnection):
    """See the module."""

    __slots__ = ("_channel_services",)

    def __init__(
        self,
        server: "web.Server",
        loop: asyncio.AbstractEventLoop,
        services: ConnectionServices,
        channel_services: ChannelServices,
    ) -> None:
        super().__init__(server, loop, services)
        self._channel_services = channel_services

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts serving the connection, or refuses it if there are too many."""
        self._channel_services.memory.plain_connections += 1
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Drops everything that refers to the connection."""
        self._channel_services.memory.plain_connections -= 1
        super().connection_lost(exc)

    @property
    def is_over_limit(self) -> bool:
        """Whether there are more connections than a limit allows: that of all, or that of the Unix socket."""
        memory, limits = self._channel_services.memory, self._channel_services.limits
        own = memory.plain_connections + len(memory.channels)
        return own > max(1, limits.connections // SOCKET_SHARE) or super().is_over_limit

    def data_received(self, data: bytes) -> None:
        """Switches to a read channel, or answers."""
        if data.startswith(UPGRADE) and self.is_idle and not self._channel_services.requests.is_draining:
            self._switch(data[len(UPGRADE) :])
        else:
            super().data_received(data)

    def _switch(self, rest: bytes) -> None:
        transport = self.transport
        if transport is None:
            return
        channel = ReadChannel(self._channel_services, self.peer)
        self.transport = None  # so that the next line does not close it
        self.connection_lost(None)  # of this protocol: its timers, and aiohttp's task
        transport.set_protocol(channel)
        channel.connection_made(transport)
        transport.write(SWITCHED)
        if rest:
            channel.data_received(rest)
