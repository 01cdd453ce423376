"""The embedded origin: a real OpenStack Swift with its S3 API, in one directory, without privileges.

    with EmbeddedSwift(directory) as origin:
        boto3.client("s3", endpoint_url=origin.endpoint, ...)

For `forebay demo`, `make serve` and the tests. It verifies every kind of signature and implements most of S3. It is
slow, and its credentials are part of this source: it is no place for real data. Objects persist between starts, and so
do its id and its port, where that is still free.

Invariants: it listens on loopback only; it ends with this process; a directory belongs to one origin at a time.
Blocking: call it from a thread when an event loop is running.
"""

import http.client
import importlib.util
import json
import secrets
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, Self

from forebay_demo.child_process import ChildProcess, DemoUnavailable
from forebay_demo.demo_directory import lock_directory, require_xattrs, unwritable
from forebay_demo.swift_filters import COUNTS_PATH
from forebay_demo.swift_layout import ACCESS_KEY, REGION, SECRET_KEY, write_layout

_START_SECONDS = 30.0  # half a second on an idle machine


class RequestCounts(NamedTuple):
    """Requests received and bytes sent by the origin."""

    requests: int
    sent: int
    """Body bytes."""


class EmbeddedSwift:
    """One origin: `start` and `close`, or a context manager."""

    access_key: Final = ACCESS_KEY
    secret_key: Final = SECRET_KEY
    region: Final = REGION

    def __init__(self, directory: Path, port: int = 0, options: Mapping[str, str] = MappingProxyType({})) -> None:
        """An origin in `directory`, on `port` of 127.0.0.1; if it is 0, on that of the last start, else on one that the
        system chooses. `options`: as write_layout has them."""
        self._options = options
        self.directory = directory.absolute()
        self.port = port
        self._child: ChildProcess | None = None
        self._open = ExitStack()

    @property
    def endpoint(self) -> str:
        """The URL of the origin."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def id(self) -> str:
        """A name of the objects in the directory, whatever the port. They are deleted together, so other objects have
        another name."""
        return (self.directory / "id").read_text()

    @property
    def pid(self) -> int:
        """The id of its process, while it runs."""
        return self._running.pid

    def start(self) -> None:
        """Starts; returns once a signed request has been answered. Raises DemoUnavailable, with the reason."""
        _require("swift", "botocore")
        # The socket is bound here, not in the child: a port in use gets a clear error, and a port chosen by the system
        # stays ours. The child inherits the lock, which ends with it.
        with lock_directory(self.directory) as lock, self._bound() as front:
            self.port = front.getsockname()[1]
            require_xattrs(self.directory)
            try:
                write_layout(self.directory, self._options)
                (self.directory / "port").write_text(str(self.port))
                id_file = self.directory / "id"
                if not (id_file.exists() and id_file.read_text()):
                    id_file.write_text(secrets.token_hex(16))
            except OSError as error:
                raise unwritable(self.directory, error) from error
            child = ChildProcess(
                "forebay_demo.swift_server",
                str(self.directory),
                str(front.fileno()),
                log=self.directory / "log" / "swift.log",
                pass_fds=(front.fileno(), lock.fileno()),
            )
        self._child = self._open.enter_context(child)
        try:
            child.first_line(_START_SECONDS)
            self._expect("/healthcheck", {})
            self._expect("/", self._signed("/"))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the process and waits for it. May be called twice, and before `start`."""
        self._child = None
        self._open.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def request_counts(self, bucket: str, *methods: str) -> RequestCounts:
        """The counts of `bucket` since the start: of all methods, or of those named."""
        seen = json.loads(self._expect(COUNTS_PATH, {}))
        counts = [count for method, count in seen.get(bucket, {}).items() if not methods or method in methods]
        return RequestCounts(sum(requests for requests, _ in counts), sum(sent for _, sent in counts))

    def _bound(self) -> socket.socket:
        if self.port == 0:
            with suppress(OSError, ValueError, OverflowError, DemoUnavailable):
                return _bound(int((self.directory / "port").read_text()))
        return _bound(self.port)

    @property
    def _running(self) -> ChildProcess:
        if self._child is None:
            raise RuntimeError("the embedded origin is not running")
        return self._child

    def _expect(self, path: str, headers: dict[str, str]) -> bytes:
        """The body of a 200 response to a GET. Raises DemoUnavailable for any other."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_START_SECONDS)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._running.failed(f"did not answer GET {path} ({error})") from error
        finally:
            connection.close()
        if answer.status != 200:
            raise self._running.failed(f"answered GET {path} with {answer.status}")
        return body

    def _signed(self, path: str) -> dict[str, str]:
        """Headers of a GET of `path` signed by botocore: the check of the origin must not depend on our own signer."""
        from botocore.auth import S3SigV4Auth  # noqa: PLC0415 - from the demo extra, checked in `start`
        from botocore.awsrequest import AWSRequest  # noqa: PLC0415 - likewise
        from botocore.credentials import Credentials  # noqa: PLC0415 - likewise

        request = AWSRequest("GET", self.endpoint + path)
        S3SigV4Auth(Credentials(self.access_key, self.secret_key), "s3", self.region).add_auth(request)
        return dict(request.headers.items())


def _bound(port: int) -> socket.socket:
    """A loopback socket, bound and not listening yet."""
    front = socket.socket()
    front.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        front.bind(("127.0.0.1", port))
    except OSError as error:
        front.close()
        raise DemoUnavailable(
            f"The demo's origin can't listen on 127.0.0.1:{port} ({error.strerror}): choose another port, or 0 for any."
        ) from error
    return front


def _require(*modules: str) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise DemoUnavailable(
                f"The demo needs {module}, which is not installed: install it from a checkout of Forebay, "
                "pip install '.[demo]'"
            )
