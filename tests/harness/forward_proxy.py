"""An HTTP proxy on the loopback that reaches one server, whatever is asked for: absolute URLs, and CONNECT."""

import asyncio
from contextlib import closing, suppress
from types import TracebackType
from typing import Self

from harness.scripted_origin import close_listener


class ForwardProxy:
    def __init__(self, port: int) -> None:
        """`port`: of the server."""
        self._to = port
        self.requests: list[str] = []
        """The request lines, each with its Proxy-Authorization, if it had one."""
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        await close_listener(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(asyncio.IncompleteReadError):  # a client that has left before its request
            await self._relay(reader, writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").split("\r\n")
        method, url, version = line.split(" ")
        shown = [field.partition(": ")[2] for field in fields if field.lower().startswith("proxy-authorization:")]
        self.requests.append(" ".join((method, url, *shown)))
        origin, to_origin = await asyncio.open_connection("127.0.0.1", self._to)
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            path = "/" + url.split("/", 3)[3]
            kept = [field for field in fields if not field.lower().startswith(("proxy-", "connection:"))]
            to_origin.write("\r\n".join((f"{method} {path} {version}", "Connection: close", *kept)).encode("latin-1"))
        try:
            await asyncio.gather(_pump(reader, to_origin), _pump(origin, writer))
        finally:
            to_origin.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        writer.close()
    except ConnectionError:
        writer.close()
