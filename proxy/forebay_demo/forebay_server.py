"""A real Forebay in front of the demo's origin: `forebay serve` as a child process, configured by a file.

The file holds the origin's credentials and the demo's own, so it is 0600. Nothing here reaches into the server: what
the demo shows is what a user's Forebay does.
"""

import http.client
import json
import os
import time
from pathlib import Path
from typing import Final, NamedTuple, Self

from forebay_demo.child_process import ChildProcess

ACCESS_KEY: Final = "demo"
SECRET_KEY: Final = "demo-secret"  # noqa: S105 - a throw-away key for a listener on loopback

_READY_SECONDS = 30.0
_LOOK_EVERY = 0.02


class OriginAddress(NamedTuple):
    """The endpoint and credential of the origin."""

    endpoint: str
    region: str
    access_key: str
    secret_key: str


class ForebayServer:
    """One `forebay serve`, in `directory`: its configuration, its log and its SSD tier, which outlives it."""

    def __init__(self, directory: Path, origin: OriginAddress, listen: int, admin: int) -> None:
        self.directory = directory
        self._origin = origin
        self._listen, self._admin = listen, admin
        self._child: ChildProcess | None = None

    @property
    def endpoint(self) -> str:
        """The URL for clients."""
        return f"http://127.0.0.1:{self._listen}"

    @property
    def admin(self) -> str:
        """The URL of the admin port."""
        return f"http://127.0.0.1:{self._admin}"

    def start(self) -> None:
        """Returns when /readyz says so; DemoUnavailable with the end of its log if it never does."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self.directory / "forebay.toml"
        write_private(file, self.configuration())
        child = ChildProcess(
            "forebay_client.cli.main",
            "serve",
            "--config",
            str(file),
            log=self.directory / "forebay.log",
            # What the environment says of the user's own Forebay is not meant for this one.
            environment={name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")},
            announces=False,
        )
        self._child = child
        try:
            deadline = time.monotonic() + _READY_SECONDS
            while not self._ready():
                if child.ended_within(_LOOK_EVERY):
                    raise child.failed("ended while starting")
                if time.monotonic() > deadline:
                    raise child.failed(f"was not ready after {_READY_SECONDS:g} seconds")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends it as an operator would, with SIGTERM; may be called again."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def wait(self) -> None:
        """Waits until the process ends by itself."""
        while self._child is not None and not self._child.ended_within(3600):
            pass

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._admin, timeout=_READY_SECONDS)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def configuration(self) -> str:
        """The text of its configuration file."""
        quote = json.dumps  # a JSON string is a TOML basic string
        return f"""\
[server]
listen = "127.0.0.1:{self._listen}"
admin = "127.0.0.1:{self._admin}"
state_dir = {quote(str(self.directory / "state"))}

[origin]
endpoint = {quote(self._origin.endpoint)}
region = {quote(self._origin.region)}
dialect = "swift"
access_key = {quote(self._origin.access_key)}
secret_key = {quote(self._origin.secret_key)}

[memory]
size = "256MiB"

[ssd]
path = {quote(str(self.directory / "ssd"))}
size = "1GiB"

[[auth.keys]]
id = {quote(ACCESS_KEY)}
secret = {quote(SECRET_KEY)}
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]
"""


def write_private(file: Path, text: str) -> None:
    """Writes `file` so that at no moment anybody else may read it."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as opened:
        opened.write(text)
