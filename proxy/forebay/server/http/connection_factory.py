"""What makes a connection of each socket that is accepted, and hands each request of it on."""

from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage

from forebay.core.errors import S3Error
from forebay.core.fair_semaphore import FairSemaphore
from forebay.server.fastpath.fast_lane import AdmittedRead, FastLane
from forebay.server.http.client_connection import ClientConnection
from forebay.server.http.connection_limits import ConnectionLimits
from forebay.server.http.send_queue import SendQueue
from forebay.server.http.strict_framing import framing_error


class ConnectionFactory(web.Server):
    """Makes a Connection for each socket that is accepted. `refused` is told of what never became a request, and by
    whom, and gives the id that the answer has."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Any],
        limits: ConnectionLimits,
        refused: Callable[[S3Error, str], str],
    ) -> None:
        super().__init__(self._answer)
        self._handler = handler
        self._limits = limits
        self.refused = refused
        self.lane: FastLane | None = None
        """None: every request takes the full lane by way of aiohttp."""
        self.read: Callable[[ClientConnection, str, AdmittedRead], None] = _unanswered
        """Takes a read that the fast lane has understood, and who asks; says `has_read` when it is answered."""
        self.budget = FairSemaphore(0)
        """What clients hold of the lane's answers that they don't take is taken from it."""
        self.departures = SendQueue(self._loop)
        self.sending: Callable[[int], None] = lambda _: None
        """Told of each body that did not leave at once: 1, and -1 when it has left or never will."""

    def __call__(self) -> ClientConnection:
        return ClientConnection(self, self._loop, self._limits)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        doubt = framing_error(request)
        if doubt is not None:
            raise BadHttpMessage(doubt)  # for Connection.handle_error, as if the parser had raised it
        response: web.StreamResponse = await self._handler(request)
        if isinstance(request.protocol, ClientConnection):
            request.protocol.response_written(keep_alive=bool(response.keep_alive) and request.content.is_eof())
        return response


def _unanswered(connection: ClientConnection, _peer: str, _read: AdmittedRead) -> None:
    """Where nobody answers."""
    connection.force_close()
