"""Fixtures that more than one folder uses. What they are made of lives in tests/harness."""

import gc
import itertools
import re
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings

from harness.clients import boto_client
from harness.forked_process import end_server
from harness.reference_sigv4 import Secret
from harness.swift import SwiftOrigin, running_swift
from security.scale import SCALE

# `make test` makes the same cases each time, so that its verdict is of the change that was made and of nothing else.
# New ones are made by the larger runs (`make fuzz`, `make forgery`, `make long`).
settings.register_profile("forebay", derandomize=SCALE == 1, deadline=None)  # a busy machine is no error
settings.load_profile("forebay")


COLLECTOR_THRESHOLD = 10_000
"""New objects, less those that have gone, between two runs of the garbage collector: Python's default is 700."""

SLOWEST = frozenset(
    {
        *("properties/test_reference_model.py", "workers/test_supervisor.py", "compat/test_clients.py"),
        *("scenarios/test_write_back_kills.py", "scenarios/test_stable_share.py", "scenarios/test_real_clients.py"),
        *("scenarios/test_process_restarts.py", "scenarios/test_advice.py", "storage/ssd/index/test_index_repair.py"),
    }
)
"""Files with tests of many seconds. They come first, so that no process is left alone with one at the end."""

INSTALLS_ALL = "make peers browser promtool clients clients-torch"
"""Installs everything that tests can use. Continuous integration calls it, and skips no test."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how skipped tests are had; pytest has listed their reasons (-rs)."""
    if skipped := len(terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_line(f"{skipped} skipped: `{INSTALLS_ALL}`, as root on Debian, installs what they need.")


_FOLDERS: Final = itertools.count()
_HAS_PASSED: Final = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note whether the test has passed, for `tmp_path`."""
    report = yield
    if report.when == "call":
        item.stash[_HAS_PASSED] = report.passed
    return report


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory like that of pytest's own fixture, which numbers it by a search through those of all tests before it:
    8 ms behind 3,000 tests."""
    name = re.sub(r"\W", "_", request.node.name)[:25]
    path = tmp_path_factory.mktemp(f"{name}{next(_FOLDERS)}", numbered=False)
    yield path
    keeps_all = request.config.getini("tmp_path_retention_policy") == "all"
    if not keeps_all and request.node.stash.get(_HAS_PASSED, False):
        shutil.rmtree(path, ignore_errors=True)


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


def pytest_configure() -> None:
    """Let modules and tests be collected without the garbage collector, which took half of the time for it."""
    gc.disable()


def pytest_sessionfinish() -> None:
    """End what the session started once."""
    end_server()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest."""
    here = Path(__file__).parent
    items.sort(key=lambda item: not item.path.is_relative_to(here) or str(item.path.relative_to(here)) not in SLOWEST)


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collector's way, as it stays to the end, and what garbage is among it:
    to find that would take a second of each process. What tests leave behind is large, and mostly not cyclic: the
    collector looks at it more seldom than by default."""
    gc.freeze()
    gc.set_threshold(COLLECTOR_THRESHOLD)
    gc.enable()
