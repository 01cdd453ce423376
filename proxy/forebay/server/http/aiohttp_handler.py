"""aiohttp's connection, but for what it takes for a defect and is none, with an error in the log for each client.

What its task finds nothing of any more it asks all the same: of a connection that was lost in the moment in which it
was made (before Python 3.12), or as a request had come whole. It ends with an exception that nobody awaits
(https://github.com/aio-libs/aiohttp/blob/v3.14.5/aiohttp/web_protocol.py, `RequestHandler.start`). And what is left of
a refused body may be malformed as well.
"""

from typing import Any

from aiohttp.web_protocol import RequestHandler, RequestPayloadError


class AiohttpConnection(RequestHandler):
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

    def log_exception(self, *args: Any, **kw: Any) -> None:
        if isinstance(kw.get("exc_info"), RequestPayloadError):
            self.log_debug("The rest of a refused body was malformed.")
        else:
            super().log_exception(*args, **kw)
