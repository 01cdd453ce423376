"""aiohttp's connection, but for what becomes of one that is lost between two turns of its task.

What the task finds nothing of any more it asks all the same: of one that was lost in the moment in which it was made
(before Python 3.12), or as a request had come whole. It ends with an exception that nobody awaits: an error in the log
for each client that goes at once (https://github.com/aio-libs/aiohttp/blob/v3.14.5/aiohttp/web_protocol.py,
`RequestHandler.start`).
"""

from aiohttp.web_protocol import RequestHandler


class Handler(RequestHandler):
    """See the module."""

    __slots__ = ()

    async def start(self) -> None:
        if self._manager is None:
            return
        try:
            await super().start()
        except TypeError:  # None is no factory of requests
            if self._manager is not None:
                raise
