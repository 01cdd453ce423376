"""The integration tests of boto 2.49, the last of its line, whose requests are signed with Signature Version 2.

They make their connections without arguments, so a `sitecustomize` gives them an endpoint, and path style. Without what
needs a certificate, a second factor, or several regions of Amazon.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from suites.commands import installed, pytest_outcomes, source_distribution
from suites.endpoints import ACCESS_KEY, SECRET_KEY, SuiteEndpoint
from suites.suite import Suite

PIN: Final = "boto==2.49.0"
_TESTS: Final = tuple(
    f"tests/integration/s3/test_{name}.py"
    for name in ("bucket", "connection", "cors", "encryption", "key", "multidelete", "multipart", "pool", "versioning")
)
_KNOWN: Final = {
    "test_list_multipart_uploads ": "Swift lists uploads of one key by their random ids: a matter of chance",
}
_CUSTOM: Final = """\
import functools
import os
import time

import boto.s3.connection as boto_s3

_slept, _made = time.sleep, boto_s3.S3Connection.__init__
time.sleep = lambda seconds: _slept(min(seconds, 1.0))  # bucket names are made of seconds


@functools.wraps(_made)
def _make(self, *words, **more):
    more |= {"host": "127.0.0.1", "port": int(os.environ["SUITE_PORT"]), "is_secure": False}
    more.setdefault("calling_format", boto_s3.OrdinaryCallingFormat())
    _made(self, *words, **more)


boto_s3.S3Connection.__init__ = _make
"""


def _install() -> Path:
    return installed("boto2", PIN, lambda home: source_distribution(home, PIN, ("pytest", "pytest-timeout", "mock")))


def _run(place: Path, ground: SuiteEndpoint, directory: Path) -> Mapping[str, str]:
    (directory / "sitecustomize.py").write_text(_CUSTOM)
    (directory / "boto.cfg").write_text("[Boto]\nnum_retries = 1\n")  # it would try five times what the origin has not
    environ = {
        "SUITE_PORT": str(ground.port),
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "BOTO_CONFIG": str(directory / "boto.cfg"),
        "PYTHONPATH": str(directory),
    }
    python, unpacked = place / "venv/bin/python", place / PIN.replace("==", "-")
    return pytest_outcomes(python, unpacked, directory / "report.xml", environ, *_TESTS)


SUITE: Final = Suite(
    "boto2",
    "boto 2, integration tests of S3",
    f"PyPI, source distribution of `{PIN}`, tests/integration/s3",
    ("swift", "moto"),
    _install,
    _run,
    _KNOWN,
)
