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
    IgnoreBody,
    IgnoreRange,
    LateError,
    LoseAnswer,
    Redirect,
    Respond,
)
from harness.fake.authority import Authority, Proof
from harness.fake.delivery import SentResponse, close_connection, deliver
from harness.fake.errors import Refusal, error_document
from harness.fake.faults import Faults
from harness.fake.multipart import SMALLEST
from harness.fake.operations import perform
from harness.fake.payload import Payload, read
from harness.fake.request_log import LoggedRequest, RequestLog
from harness.fake.responses import Answer, document, error_response
from harness.fake.s3_request import S3Request, parse
from harness.fake.store import Store
from harness.reference_sigv4 import Secret
from harness.scripted_origin import abort_all, close_listener

DEFAULT_SECRET = Secret("fakeaccess", "fakesecret")
_MOST_LINE = 64 << 10


def _fault_response(actions: Sequence[Action], s3_request: S3Request) -> Answer | None:
    """The answer of a fault that stands in for the operation."""
    bodiless = s3_request.method == "HEAD"
    for action in actions:
        match action:
            case Respond(status, code, message, headers):
                if not code:
                    return Answer(status, headers, bodiless=True)
                xml = error_document(code, message or code, s3_request.raw_path)
                answer = document(xml, status, headers)
                return Answer(status, answer.headers, answer.content, 0, answer.stop, bodiless)
            case Redirect(location, status):
                code = "PermanentRedirect" if status == 301 else "TemporaryRedirect"
                return document(error_document(code, code, s3_request.raw_path), status, (("Location", location),))
            case LateError(code, message):
                return document(error_document(code, message, s3_request.raw_path))
            case _:
                pass
    return None


def _replace_range(s3_request: S3Request, actions: Sequence[Action]) -> S3Request:
    for action in actions:
        if isinstance(action, IgnoreRange | AnotherRange):
            headers = s3_request.headers.copy()
            headers.pop("Range", None)
            if isinstance(action, AnotherRange):
                headers["Range"] = action.header
            return replace(s3_request, headers=CIMultiDictProxy(headers))
    return s3_request


@dataclass(slots=True)
class _Connection:
    number: int
    busy: bool = False


class FakeOrigin:
    """An S3 server over `store`. A subclass overrides `_parse_request` to `_server_headers` for another protocol.

    `store`, `faults` and `log` are for the test; `endpoint` and `secret` for HTTP clients."""

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
        self.store, self.faults, self.log = Store(clock), Faults(), RequestLog(keep_log)
        self.verify, self.secret = verify, secrets[0]
        self.is_public: Callable[[S3Request], bool] = lambda _: False
        """Which unsigned requests are allowed."""
        self._authority = Authority(secrets, clock)
        self._domain, self._smallest, self._clock = domain, smallest_part, clock
        self._connections: dict[object, _Connection] = {}
        self._numbers = itertools.count(1)
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._reserved: socket.socket | None = None
        """Bound, but not listening: nobody else gets the port while connections are refused."""
        self.port = port

    def allow(self, secret: Secret) -> None:
        """Accept this key from now on."""
        self._authority.secrets[secret.access] = secret

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = web.Server(
            self._handle, access_log=None, auto_decompress=False, max_line_size=_MOST_LINE, max_field_size=_MOST_LINE
        )
        self._reserved = self._bind()
        self.port = self._reserved.getsockname()[1]
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        if self._server is not None:
            transports = [connection.transport for connection in self._server.connections]
            # Requests that hang at a gate get no grace; aiohttp takes 0 for "for ever".
            await self._server.shutdown(timeout=0.001)
            await abort_all(transports)
        if self._reserved is not None:
            self._reserved.close()

    async def listen(self) -> None:
        """Accepts connections, on the same port as before."""
        assert self._server is not None
        self._listener = await asyncio.get_running_loop().create_server(self._server, sock=self._bind(), backlog=1024)

    def _bind(self) -> socket.socket:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", self.port))
        return bound

    def protocol(self) -> asyncio.Protocol:
        """What serves one connection, for a listener of somebody else's."""
        assert self._server is not None
        return self._server()

    async def refuse(self) -> None:
        """New connections are refused until `listen()`. Those that are open live on: see `disconnect`."""
        if self._listener is not None:
            await close_listener(self._listener)
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
        s3_request = self._parse_request(request)
        connection = self._connection(request.protocol)
        entry = LoggedRequest(
            s3_request.method,
            s3_request.target,
            s3_request.bucket,
            s3_request.key,
            s3_request.operation,
            s3_request.range,
            request.headers,
            connection.number,
        )
        self.log.record_start(entry)
        try:
            return await self._respond(request, s3_request, entry)
        except ConnectionError:
            return SentResponse(keep_alive=False)
        finally:
            connection.busy = False
            self.log.record_end(entry)

    async def _respond(self, request: web.BaseRequest, s3_request: S3Request, entry: LoggedRequest) -> SentResponse:
        actions = self.faults.actions_for(s3_request, is_probe=entry.is_probe)
        try:
            proof = self._verify_signature(request, s3_request)
            unread = any(isinstance(action, IgnoreBody) for action in actions)
            raw = b"" if unread else await self._body(request, entry)
            for action in actions:
                if isinstance(action, HoldRequest):
                    await action.gate.wait_open()
                elif isinstance(action, Drop):
                    return close_connection(request, action.reset)
            payload = Payload(b"") if unread else self._read_payload(raw, s3_request, proof)
        except Refusal as refusal:
            answer = self._translate_response(
                error_response(refusal, s3_request.raw_path, s3_request.method == "HEAD"), s3_request
            )
        else:
            instead = _fault_response(actions, s3_request)
            if instead is not None:
                answer = self._translate_response(instead, s3_request)
            else:
                answer = self._perform(_replace_range(s3_request, actions), payload)
        if s3_request.method == "HEAD":
            answer = replace(answer, bodiless=True)
        for action in actions:
            if isinstance(action, LoseAnswer):
                return close_connection(request, action.reset)
        return await deliver(request, answer, actions, entry, self._clock(), self._server_headers)

    def _parse_request(self, request: web.BaseRequest) -> S3Request:
        return parse(request.method, request.raw_path, request.headers, self._domain)

    def _verify_signature(self, request: web.BaseRequest, s3_request: S3Request) -> Proof | None:
        """Who asks; None: it is not looked at, or anybody may. Refusal."""
        if not self.verify or self._is_open_to_all(s3_request):
            return None
        return self._authority.verify(
            s3_request, [(name.decode(), _text(value)) for name, value in request.raw_headers]
        )

    def _is_open_to_all(self, s3_request: S3Request) -> bool:
        signed = "Authorization" in s3_request.headers or any("signature" in name.lower() for name in s3_request.query)
        return not signed and self.is_public(s3_request)

    def _read_payload(self, raw: bytes, s3_request: S3Request, proof: Proof | None) -> Payload:
        return read(raw, s3_request, proof)

    def _perform(self, s3_request: S3Request, payload: Payload) -> Answer:
        return perform(self.store, s3_request, payload, self._smallest)

    def _translate_response(self, answer: Answer, s3_request: S3Request) -> Answer:  # for another protocol
        return answer

    @property
    def _server_headers(self) -> Sequence[str]:
        """Header lines that every answer has."""
        return ("x-amz-id-2: fake", "x-amz-request-id: FAKE", "Server: FakeS3")

    @staticmethod
    async def _body(request: web.BaseRequest, entry: LoggedRequest) -> bytes:
        if not request.body_exists:
            return b""
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await request.content.read()
        entry.bytes_received = len(body)
        return body


def _text(value: bytes) -> str:
    """A header's value as the client meant it when it signed: UTF-8, or else Latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
