"""What is left of a body when its request has been answered, read and dropped.

    request, part of its body ──> refused ──> the rest, dropped ──> closed
                                     └──> the client reads this when it has sent all, as many do

What comes in after a close is answered by a reset, which takes from the client what it has not read yet: the refusal
(RFC 9112 section 9.6). So the connection stays open while bytes come, for `lingering` seconds at most, and ends when
for `lingering_pause` none did: as nginx has it with lingering_time and lingering_timeout, whose 30 and 5 seconds these
are. (aiohttp waits for one time, whether anything comes or not.) Whoever never sends anything else holds a connection
for no longer than an idle client may, and no more memory than one read of a body.

https://nginx.org/en/docs/http/ngx_http_core_module.html#lingering_close
"""

import asyncio

from aiohttp.client_exceptions import ClientPayloadError
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestPayloadError

from forebay.server.http.connection_limits import ConnectionLimits


async def linger(content: StreamReader, limits: ConnectionLimits) -> None:
    """Read `content` to its end, or as far as the limits allow. Whether it is well-formed does not matter any more."""
    if content.is_eof():
        return  # as nearly always
    try:
        async with asyncio.timeout(limits.lingering):
            while not content.is_eof():
                async with asyncio.timeout(limits.lingering_pause):
                    await content.readany()
    except (TimeoutError, RequestPayloadError, ClientPayloadError, ConnectionError):
        return
