"""One keep-alive connection that reads one response at a time: for verifying responses and timing single reads."""

import hashlib
import socket
import time
from types import TracebackType
from typing import Final, NamedTuple, Self

from benchmarks.errors import UnexpectedResponse

_READ: Final = 1 << 20
_LONGEST_HEAD: Final = 1 << 16
_PATIENCE: Final = 60.0


class TimedResponse(NamedTuple):
    """Times are in seconds from the moment the request was sent."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    length: int
    sha256: str
    """Of the body; empty if it was only counted."""
    first_byte: float
    """To the first byte of the body."""
    total: float


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and headers, their names in lower case, of everything before the empty line."""
    status_line, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines)
    return int(status_line.split(" ", 2)[1]), {name.lower(): value.strip() for name, _, value in fields}


class KeepAliveConnection:
    """To a port of loopback."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray(_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    @property
    def port(self) -> int:
        """The port that it comes from."""
        return int(self._socket.getsockname()[1])

    def get(self, request: bytes, sent: bytes = b"", *, digest: bool = False) -> TimedResponse:
        """Send a request, with the body `sent`, and read its answer. `digest`: hash the answer's body too, which takes
        time of its own."""
        started = time.perf_counter()
        self._socket.sendall(request)
        if sent:
            self._socket.sendall(sent)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._some(_LONGEST_HEAD)
        status, headers = parse_head(received[:end])
        body = received[end + 4 :]
        length, count = int(headers.get("content-length", "0")), len(body)
        first_byte = time.perf_counter() - started if body else 0.0
        hashed = hashlib.sha256(body)
        view = memoryview(self._buffer)
        while count < length:
            size = self._socket.recv_into(view, min(_READ, length - count))
            if not size:
                raise UnexpectedResponse(f"the body ended after {count} of {length} bytes")
            first_byte = first_byte or time.perf_counter() - started
            count += size
            if digest:
                hashed.update(view[:size])
        total = time.perf_counter() - started
        return TimedResponse(status, headers, count, hashed.hexdigest() if digest else "", first_byte or total, total)

    def _some(self, most: int) -> bytes:
        received = self._socket.recv(most)
        if not received:
            raise UnexpectedResponse(f"port {self._port} closed the connection before an answer")
        return received
