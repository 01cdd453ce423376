"""The real origin of the tests: one embedded Swift for the whole run.

Tests ask for the fixture `swift` (tests/conftest.py) and take a bucket of their own from it, so that they neither see
nor count each other's requests.
"""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forebay_demo.child_process import DemoUnavailable
from forebay_demo.embedded_swift import EmbeddedSwift, RequestCounts
from harness.clients import boto_client
from harness.reference_sigv4 import Secret


@dataclass(frozen=True, slots=True)
class SwiftOrigin:
    """Where it is, and who may use it."""

    server: EmbeddedSwift
    secret: Secret
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def endpoint(self) -> str:
        return self.server.endpoint

    def fresh_bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"fresh-{next(self._numbers):05}"
        client = boto_client(self.endpoint, self.secret)
        try:
            client.create_bucket(Bucket=name)
        finally:
            client.close()
        return name

    def tally(self, bucket: str, *methods: str) -> RequestCounts:
        """What the origin itself has seen for `bucket`: all methods, or those named."""
        return self.server.request_counts(bucket, *methods)


@contextmanager
def running_swift(directory: Path) -> Iterator[SwiftOrigin]:
    """An origin in `directory`, or the test is skipped with the reason why there can be none."""
    server = EmbeddedSwift(directory)
    try:
        server.start()
    except DemoUnavailable as unavailable:
        pytest.skip(str(unavailable))
    try:
        yield SwiftOrigin(server, Secret(server.access_key, server.secret_key, server.region))
    finally:
        server.close()
