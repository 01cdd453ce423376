"""An errand: what one client is sent to do, told line by line on standard output.

    {"version": "1.44.5"}     what the client says it is
    {"did": "put"}            a deed was done, and what came back was compared with what was sent
    {"again": "again.bin"}    a key that was read whole twice: the second time is to have been a hit

An errand runs in the client's own environment, where Forebay and its libraries are not installed: standard library
only. Where to go stands in the environment (Errand.begin); the working directory is its own and empty. Whatever goes
wrong is an exception, and the errand has failed.
"""

import json
import os
import random
import subprocess
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import urlsplit

SMALL: Final = random.Random(1).randbytes(100_003)
LARGE: Final = random.Random(2).randbytes((13 << 20) + 17)
"""Two parts of 5 MiB, the smallest that S3 has, and a rest; thirteen blocks and a short one."""
ODD: Final = "odd/sp ace+plus&and=is~'(1)%2F%20#ü€.bin"
"""A key that every client has to encode, and that nobody may decode twice."""
PLAN: Final = ".forebay/plans/train/epoch-1"
ORDER: Final = f"{ODD}\nsmall.bin\t0-999\nnone\n".encode()
"""A plan of three entries."""
_TOLD: Final = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # What a library prints is none of what is told.
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Errand:
    """Where to go, as whom."""

    endpoint: str
    bucket: str
    access: str
    secret: str
    region: str

    @classmethod
    def begin(cls, version: str) -> "Errand":
        """Read the environment, and tell which version of the client this is."""
        _tell(version=version)
        environ = os.environ
        return cls(
            environ["ERRAND_ENDPOINT"],
            environ["ERRAND_BUCKET"],
            environ["AWS_ACCESS_KEY_ID"],
            environ["AWS_SECRET_ACCESS_KEY"],
            environ["AWS_DEFAULT_REGION"],
        )

    @property
    def address(self) -> str:
        """HOST:PORT."""
        return urlsplit(self.endpoint).netloc

    @staticmethod
    def did(deed: str) -> None:
        """`deed` is done."""
        _tell(did=deed)

    @staticmethod
    def again(key: str) -> None:
        """`key` was read whole, twice."""
        _tell(again=key)


def same(got: bytes, sent: bytes) -> None:
    """Raise unless these are the same bytes; says where they part, rather than print megabytes."""
    if got != sent:
        shared = next(
            (at for at, (a, b) in enumerate(zip(got, sent, strict=False)) if a != b), min(len(got), len(sent))
        )
        raise AssertionError(f"{len(got)} bytes came, {len(sent)} were sent, and they part at byte {shared}")


def equal(got: object, expected: object) -> None:
    """Raise unless they are equal."""
    if got != expected:
        raise AssertionError(f"{got!r} came, {expected!r} was expected")


def small_file() -> Path:
    """A file that holds SMALL."""
    return _file("small.bin", SMALL)


def large_file() -> Path:
    """A file that holds LARGE."""
    return _file("large.bin", LARGE)


def run(*command: str, input: bytes = b"") -> bytes:  # noqa: A002 # as subprocess names it
    """Runs a command-line client; its standard output. Raises with what it complained of."""
    ran = subprocess.run(command, input=input, capture_output=True, check=False, timeout=60)
    if ran.returncode:
        raise AssertionError(f"{' '.join(command)}: {ran.returncode}: {ran.stderr.decode()} {ran.stdout.decode()}")
    return ran.stdout


def fails(*command: str) -> None:
    """Runs a command-line client that must not succeed: what it asks for is gone."""
    ran = subprocess.run(command, capture_output=True, check=False, timeout=60)
    if ran.returncode == 0:
        raise AssertionError(f"{' '.join(command)} succeeded: {ran.stdout.decode()}")


def fetch(url: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] = NOTHING) -> bytes:
    """What a presigned URL gives to somebody who has nothing else."""
    parts = urlsplit(url)
    # Not urllib.request: it adds a Content-Type to a body, which some signatures cover.
    with closing(HTTPConnection(parts.netloc, timeout=30)) as connection:
        connection.request(method, f"{parts.path}?{parts.query}", body, dict(headers))
        answer = connection.getresponse()
        content = answer.read()
    if answer.status != 200:
        raise AssertionError(f"{method} {url}: {answer.status} {content.decode()}")
    return content


def _file(name: str, content: bytes) -> Path:
    path = Path(name).absolute()
    if not path.exists():
        path.write_bytes(content)
    return path


def _tell(**fact: str) -> None:
    _TOLD.write(json.dumps(fact) + "\n")
    _TOLD.flush()
