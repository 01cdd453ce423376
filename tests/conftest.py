"""Fixtures that more than one folder uses. What they are made of lives in tests/harness."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.clients import boto_client
from harness.reference_sigv4 import Secret
from harness.swift import SwiftOrigin, running_swift


@pytest.fixture(scope="session")
def swift(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SwiftOrigin]:
    """A real origin, started once a run; skipped where Swift can't run."""
    with running_swift(tmp_path_factory.mktemp("swift")) as origin:
        yield origin


@pytest.fixture
def boto3_client() -> Iterator[Callable[..., Any]]:
    """Makes boto3 clients as harness.clients.boto_client does, and closes them when the test is over."""
    with ExitStack() as clients:

        def make(endpoint: str, secret: Secret, **config: Any) -> Any:
            client = boto_client(endpoint, secret, **config)
            clients.callback(client.close)
            return client

        yield make
