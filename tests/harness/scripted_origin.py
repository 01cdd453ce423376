"""An origin scripted in bytes: each connection runs a short script, so that a test sees and sends exact bytes.

Nothing is parsed beyond heads and lengths, nothing is normalised. For an origin that behaves, see the fake.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request head as received."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)

    def names(self) -> list[str]:
        return [key.lower() for key, _ in self.headers]


class ScriptedConnection:
    """One connection, from the origin's side."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, requests: list[ReceivedRequest]
    ) -> None:
        self.reader, self.writer, self._heard = reader, writer, requests

    async def read_request(self) -> ReceivedRequest:
        """The next request's head. IncompleteReadError if the client has closed the connection."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        pairs = tuple((name, value) for name, _, value in (line.partition(": ") for line in head[1:] if line))
        requests = ReceivedRequest(method, target, pairs)
        self._heard.append(requests)
        return requests

    async def read_body(self, length: int) -> bytes:
        return await self.reader.readexactly(length)

    async def respond(self, status: int, headers: str = "", body: bytes = b"", length: int | None = None) -> None:
        """An answer; `headers` are lines, `length` a Content-Length that may be a lie (-1: none)."""
        announced = len(body) if length is None else length
        framing = f"Content-Length: {announced}\n" if announced >= 0 else ""
        lines = f"HTTP/1.1 {status} Said\n{framing}{headers}".rstrip("\n").replace("\n", "\r\n")
        await self.send_raw(f"{lines}\r\n\r\n".encode() + body)

    async def send_raw(self, raw: bytes) -> None:
        self.writer.write(raw)
        await self.writer.drain()

    async def wait_closed(self) -> None:
        """Returns when the client has closed its side."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def reset(self) -> None:
        self.writer.transport.abort()


Script: TypeAlias = Callable[[ScriptedConnection], Awaitable[None]]


@dataclass(slots=True)
class ScriptedOrigin:
    url: str
    requests: list[ReceivedRequest] = field(default_factory=list)
    connections: int = 0
    ended: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def all_ended(self, count: int) -> None:
        """Returns when `count` connections have come to the end of their script."""
        async with self.changed:
            await self.changed.wait_for(lambda: self.ended >= count)


async def close_listener(listener: asyncio.Server) -> None:
    """Ends a listener, and no connection. asyncio makes the transport of a connection a turn after it has accepted it,
    and leaves the socket open if the listener was closed in between: so that is closed a few turns later."""
    loop = asyncio.get_running_loop()
    for sock in listener.sockets:
        loop.remove_reader(sock.fileno())
    for _ in range(5):
        await asyncio.sleep(0)
    listener.close()


async def abort_all(transports: Iterable[asyncio.WriteTransport | None]) -> None:
    """Ends connections that wait for a client to read, which `close` alone leaves open, and lets the loop notice."""
    for transport in transports:
        if transport is not None:
            transport.abort()
    for _ in range(2):
        await asyncio.sleep(0)


@asynccontextmanager
async def scripted_origin(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedOrigin]:
    """An origin whose nth connection follows the nth script, all later ones the last. An end of script hangs up."""
    origin: ScriptedOrigin
    failures: list[BaseException] = []
    transports: list[asyncio.WriteTransport] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        script = scripts[min(origin.connections, len(scripts) - 1)]
        origin.connections += 1
        transports.append(writer.transport)
        try:
            await script(ScriptedConnection(reader, writer, origin.requests))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone, which ends any script
        except Exception as failure:  # kept for the test, which must fail with it
            failures.append(failure)
        finally:
            writer.close()
            async with origin.changed:
                origin.ended += 1
                origin.changed.notify_all()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    origin = ScriptedOrigin(f"{'http' if tls is None else 'https'}://127.0.0.1:{port}")
    async with server:
        yield origin
        await close_listener(server)
        async with asyncio.timeout(60):
            await origin.all_ended(origin.connections)
    await abort_all(transports)
    if failures:
        raise failures[0]


def respond_always(status: int, headers: str = "", body: bytes = b"") -> Script:
    """Answers every request of the connection alike; requests have no body."""

    async def script(line: ScriptedConnection) -> None:
        while True:
            requests = await line.read_request()
            if requests.method == "HEAD":
                await line.respond(status, headers, b"", len(body))
            else:
                await line.respond(status, headers, body)

    return script


async def never_respond(line: ScriptedConnection) -> None:
    """Reads the request and sends nothing."""
    await line.read_request()
    await line.wait_closed()


async def stall_in_body(line: ScriptedConnection) -> None:
    """Sends half of a body and then nothing."""
    await line.read_request()
    await line.respond(200, "", b"ab", 4)
    await line.wait_closed()
