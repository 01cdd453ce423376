"""FakeOrigin: an S3 server in the test's own event loop, quick, strict, and able to break any answer on command.

    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"bytes", content_type="text/plain")      # the foreign writer
        origin.faults.add(actions.HoldAfter(10, gate := Gate()), key="key", times=1)
        ... something reads from origin.endpoint with origin.secret ...
        assert origin.log.count("GET", key="key") == 1

It listens on a loopback port of the system's choice. Signatures are verified by botocore's signer unless
`verify=False`. It is not Forebay's code and shares none but names and spans; what it claims of S3 is held by
tests/origin/conformance, which a real store passes as well. As a process of its own: `python -m harness.fake
--help`, from tests/.
"""

import asyncio
import itertools
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from aiohttp import web
from multidict import CIMultiDictProxy

from harness.fake.actions import (
    Action,
    AnotherRange,
    Drop,
    HoldRequest,
    IgnoreRange,
    LateError,
    LoseAnswer,
    Redirect,
    Respond,
)
from harness.fake.authority import Authority, Proof
from harness.fake.delivery import Sent, cut, deliver
from harness.fake.errors import Refusal, error_document
from harness.fake.faults import Faults
from harness.fake.multipart import SMALLEST
from harness.fake.operations import perform
from harness.fake.payload import Payload, read
from harness.fake.request_log import Log, Seen
from harness.fake.responses import Answer, document, refused
from harness.fake.s3_request import Asked, parse
from harness.fake.store import Store
from harness.reference_sigv4 import Secret

DEFAULT_SECRET = Secret("fakeaccess", "fakesecret")
_MOST_LINE = 64 << 10


def _instead(actions: Sequence[Action], asked: Asked) -> Answer | None:
    """The answer of a fault that stands in for the operation."""
    bodiless = asked.method == "HEAD"
    for action in actions:
        match action:
            case Respond(status, code, message, headers):
                if not code:
                    return Answer(status, headers, bodiless=True)
                xml = error_document(code, message or code, asked.raw_path)
                answer = document(xml, status, headers)
                return Answer(status, answer.headers, answer.content, 0, answer.stop, bodiless)
            case Redirect(location, status):
                code = "PermanentRedirect" if status == 301 else "TemporaryRedirect"
                return document(error_document(code, code, asked.raw_path), status, (("Location", location),))
            case LateError(code, message):
                return document(error_document(code, message, asked.raw_path))
            case _:
                pass
    return None


def _another_range(asked: Asked, actions: Sequence[Action]) -> Asked:
    for action in actions:
        if isinstance(action, IgnoreRange | AnotherRange):
            headers = asked.headers.copy()
            headers.pop("Range", None)
            if isinstance(action, AnotherRange):
                headers["Range"] = action.header
            return replace(asked, headers=CIMultiDictProxy(headers))
    return asked


@dataclass(slots=True)
class _Connection:
    number: int
    busy: bool = False


class FakeOrigin:
    """What speaks S3 about it is in `_asked` to `_signs`, for another protocol to speak of the same store.

    `store`, `faults` and `log` are for the test; `endpoint` and `secret` for whoever reads and writes over HTTP."""

    def __init__(
        self,
        *,
        verify: bool = True,
        secrets: Sequence[Secret] = (DEFAULT_SECRET,),
        domain: str | None = None,
        smallest_part: int = SMALLEST,
        keep_log: bool = True,
        port: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.faults, self.log = Store(clock), Faults(), Log(keep_log)
        self.verify, self.secret = verify, secrets[0]
        self._authority = Authority(secrets, clock)
        self._domain, self._smallest, self._clock = domain, smallest_part, clock
        self._connections: dict[object, _Connection] = {}
        self._numbers = itertools.count(1)
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self.port = port

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = web.Server(
            self._handle, access_log=None, auto_decompress=False, max_line_size=_MOST_LINE, max_field_size=_MOST_LINE
        )
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        if self._server is not None:
            # Requests that hang at a gate get no grace; aiohttp takes 0 for "for ever".
            await self._server.shutdown(timeout=0.001)

    async def listen(self) -> None:
        """Accepts connections, on the same port as before."""
        assert self._server is not None
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        self._listener = await asyncio.get_running_loop().create_server(self._server, sock=listener, backlog=1024)

    def protocol(self) -> asyncio.Protocol:
        """What serves one connection, for a listener of somebody else's."""
        assert self._server is not None
        return self._server()

    async def refuse(self) -> None:
        """New connections are refused until `listen()`. Those that are open live on: see `disconnect`."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def disconnect(self, *, idle_only: bool = True) -> int:
        """Closes the keep-alive connections that have no request under way, or all. Returns how many."""
        assert self._server is not None
        gone = [each for each in self._server.connections if not (idle_only and self._is_busy(each))]
        for each in gone:
            each.force_close()
        return len(gone)

    def _is_busy(self, protocol: object) -> bool:
        return protocol in self._connections and self._connections[protocol].busy

    def _connection(self, protocol: object) -> _Connection:
        """The connection of a request that has just come."""
        known = self._connections.get(protocol)
        if known is None:
            assert self._server is not None
            self.log.connections += 1
            for ended in self._connections.keys() - set(self._server.connections):
                del self._connections[ended]
            known = self._connections[protocol] = _Connection(next(self._numbers))
        known.busy = True
        return known

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = self._asked(request)
        connection = self._connection(request.protocol)
        seen = Seen(
            asked.method,
            asked.target,
            asked.bucket,
            asked.key,
            asked.operation,
            asked.range,
            request.headers,
            connection.number,
        )
        self.log.began(seen)
        try:
            return await self._answered(request, asked, seen)
        except ConnectionError:
            return Sent(keep_alive=False)
        finally:
            connection.busy = False
            self.log.ended(seen)

    async def _answered(self, request: web.BaseRequest, asked: Asked, seen: Seen) -> Sent:
        actions = self.faults.take(asked)
        try:
            proof = self._proof(request, asked)
            raw = await self._body(request, seen)
            for action in actions:
                if isinstance(action, HoldRequest):
                    await action.gate.passed()
                elif isinstance(action, Drop):
                    return cut(request, action.reset)
            payload = self._payload(raw, asked, proof)
        except Refusal as refusal:
            answer = self._told(refused(refusal, asked.raw_path, asked.method == "HEAD"), asked)
        else:
            instead = _instead(actions, asked)
            if instead is not None:
                answer = self._told(instead, asked)
            else:
                answer = self._performed(_another_range(asked, actions), payload)
        if asked.method == "HEAD":
            answer = replace(answer, bodiless=True)
        for action in actions:
            if isinstance(action, LoseAnswer):
                return cut(request, action.reset)
        return await deliver(request, answer, actions, seen, self._clock(), self._signs)

    def _asked(self, request: web.BaseRequest) -> Asked:
        return parse(request.method, request.raw_path, request.headers, self._domain)

    def _proof(self, request: web.BaseRequest, asked: Asked) -> Proof | None:
        """Who asks; None: it is not looked at. Refusal."""
        if not self.verify:
            return None
        return self._authority.verify(asked, [(name.decode(), _text(value)) for name, value in request.raw_headers])

    def _payload(self, raw: bytes, asked: Asked, proof: Proof | None) -> Payload:
        return read(raw, asked, proof)

    def _performed(self, asked: Asked, payload: Payload) -> Answer:
        return perform(self.store, asked, payload, self._smallest)

    def _told(self, answer: Answer, asked: Asked) -> Answer:  # for another protocol
        return answer

    @property
    def _signs(self) -> Sequence[str]:
        """Header lines that every answer has."""
        return ("x-amz-id-2: fake", "x-amz-request-id: FAKE", "Server: FakeS3")

    @staticmethod
    async def _body(request: web.BaseRequest, seen: Seen) -> bytes:
        if not request.body_exists:
            return b""
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await request.content.read()
        seen.bytes_received = len(body)
        return body


def _text(value: bytes) -> str:
    """A header's value as the client meant it when it signed: UTF-8, or else Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
