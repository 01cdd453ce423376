"""aiohttp's connection, but for what becomes of one that is lost in the moment in which it was made.

Before Python 3.12 its task has its first turn after that, finds nothing of a connection and fails an assertion, which
nobody awaits: an error in the log for each client that comes and goes at once
(https://github.com/aio-libs/aiohttp/blob/v3.14.5/aiohttp/web_protocol.py, `RequestHandler.start`).
"""

from aiohttp.web_protocol import RequestHandler


class Handler(RequestHandler):
    """See the module."""

    __slots__ = ()

    async def start(self) -> None:
        if self._manager is not None:
            await super().start()
