"""A connection of the Unix socket: plain HTTP as on any listener, until its client switches it to a read channel.

UPGRADE as the first bytes of an idle connection, whole ──> a read channel, unless there are too many connections
anything else                                           ──> HTTP
"""

import asyncio
from typing import TYPE_CHECKING

from forebay.protocol.channel_frames import SWITCHED, UPGRADE
from forebay.server.http.client_connection import ClientConnection, ConnectionServices
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

    def data_received(self, data: bytes) -> None:
        """Switch to a read channel, or answer."""
        if data.startswith(UPGRADE) and self.is_idle and self._may_switch():
            self._switch(data[len(UPGRADE) :])
        else:
            super().data_received(data)

    def _may_switch(self) -> bool:
        """Whether there may be one channel more, beside the connections of the same worker."""
        services, manager = self._channel_services, self._manager
        if manager is None or services.requests.is_draining:
            return False
        return len(manager.connections) + len(services.memory.channels) <= services.limits.connections

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
