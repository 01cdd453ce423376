"""The servers that a suite runs against: a fresh origin, by itself or behind a fresh Forebay.

    swift        the embedded Swift: checks signatures of all kinds, has no tags, policies, CORS, object locks
    swift-acl    the same with ACLs and three users, each of whom Forebay lets through with a credential of its own
    moto         moto's server: knows nearly every operation of S3, checks no signature, no checksum, no date

Each `SuiteEndpoint` has buckets, an origin and a cache of its own, and leaves nothing running.
"""

import http.client
import os
import subprocess
import time
import venv
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.workers import parent_watch
from forebay_demo.child_process import ChildProcess
from forebay_demo.embedded_swift import EmbeddedSwift
from forebay_demo.forebay_server import write_private
from forebay_demo.free_ports import free_ports
from suites.commands import installed, run

ACCESS_KEY: Final = "test:suites"
SECRET_KEY: Final = "suites-secret"  # a throw-away origin on loopback; mc wants eight characters
USERS: Final = {"test:tester": "testing", "test:tester2": "testing2", "test:tester3": "testing3"}
MOTO: Final = "moto[server]==5.2.5"

_TEMPAUTH: Final = (
    "user_test_tester2 = testing2 .admin\nuser_test_tester3 = testing3\nuser_test2_tester2 = testing2 .admin"
)
_OPTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "swift": {"tempauth": f"user_test_suites = {SECRET_KEY} .admin"},
    "swift-acl": {"tempauth": _TEMPAUTH, "s3api": "s3_acl = true\ncheck_bucket_owner = true"},
}
_FOREBAY: Final = """\
[server]
listen = "127.0.0.1:{listen}"
admin = "127.0.0.1:{admin}"
access_log = "off"
state_dir = "{directory}/state"

[origin]
endpoint = "http://127.0.0.1:{origin}"
dialect = "{dialect}"
access_key = "{user}"
secret_key = "{secret}"

[ssd]
path = "{directory}/ssd"
size = "2GiB"
"""
_KEY: Final = """
[[auth.keys]]
id = "{user}"
secret = "{secret}"
{own}
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]
"""
_OUR_CODE: Final = Path(parent_watch.__file__).parents[2]
_READY_SECONDS: Final = 60.0
_LOOK_EVERY: Final = 0.05


@dataclass(frozen=True, slots=True)
class SuiteEndpoint:
    """Both are ports of 127.0.0.1."""

    port: int
    """What the suite is pointed at."""
    origin: int
    """The origin's own; the same as `port` where nothing stands in front of it."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def origin_alone(origin: str, directory: Path) -> Iterator[SuiteEndpoint]:
    with _origin(origin, directory) as port:
        yield SuiteEndpoint(port, port)


@contextmanager
def behind_forebay(origin: str, directory: Path) -> Iterator[SuiteEndpoint]:
    with _origin(origin, directory) as port, _forebay(origin, directory, port) as listen:
        yield SuiteEndpoint(listen, port)


@contextmanager
def _origin(origin: str, directory: Path) -> Iterator[int]:
    if origin != "moto":
        with EmbeddedSwift(directory / "swift", options=_OPTIONS[origin]) as swift:
            yield swift.port
        return
    (port,) = free_ports(1)
    # On a lifeline, as everything that we start: so it ends with us, however we end.
    command = (
        str(_moto() / "bin/python"),
        "-m",
        "forebay.workers.parent_watch",
        "moto.server",
        "-H",
        "127.0.0.1",
        "-p",
        str(port),
    )
    with (
        (directory / "moto.log").open("wb") as log,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_OUR_CODE)},
        ) as moto,
    ):
        try:
            _await(port, "/moto-api/", lambda: _ended(moto))
            yield port
        finally:
            moto.terminate()


@contextmanager
def _forebay(origin: str, directory: Path, port: int) -> Iterator[int]:
    listen, admin = free_ports(2)
    users = USERS if origin == "swift-acl" else {ACCESS_KEY: SECRET_KEY}
    dialect = "minio" if origin == "moto" else "swift"
    text = _FOREBAY.format(
        listen=listen,
        admin=admin,
        origin=port,
        dialect=dialect,
        user=next(iter(users)),
        secret=next(iter(users.values())),
        directory=directory,
    )
    for user, secret in users.items():
        own = f'origin_access_key = "{user}"\norigin_secret_key = "{secret}"' if origin == "swift-acl" else ""
        text += _KEY.format(user=user, secret=secret, own=own)
    file = directory / "forebay.toml"
    write_private(file, text)
    log = directory / "forebay.log"
    with ChildProcess("forebay_client.cli.main", "serve", "--config", str(file), log=log, announces=False) as child:
        _await(admin, "/readyz", lambda: child.ended_within(_LOOK_EVERY))
        yield listen


def _moto() -> Path:
    """The environment that has it."""

    def install(home: Path) -> None:
        venv.create(home, with_pip=True)
        run(str(home / "bin/python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", MOTO)

    return installed("moto", MOTO, install)


def _ended(process: subprocess.Popen[bytes]) -> bool:
    try:
        process.wait(_LOOK_EVERY)
    except subprocess.TimeoutExpired:
        return False
    return True


def _await(port: int, path: str, ended: Callable[[], bool]) -> None:
    """Until it answers. `ended` waits a moment, and says whether it has ended instead."""
    deadline = time.monotonic() + _READY_SECONDS
    while not _answers(port, path):
        if ended() or time.monotonic() > deadline:
            raise RuntimeError(f"what should listen on port {port} ended, or said nothing for a minute")


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
