"""Checks that run in the environment of PyTorch (make clients-torch), many in one process: importing torch costs more
than most of them.

    python -m client.torch.torch_checks sampler_checks dataset_checks

runs every function `check_<behaviour>` of these modules, with a `Checks` or without, in the order in which they stand,
and prints a line of JSON for each: its name, and why it failed.
"""

import faulthandler
import inspect
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

PATIENCE = 200.0
"""Seconds of all checks; then the stacks of all threads are printed, and they have failed."""


class Checks:
    """Where the Forebay of the test is, and an empty directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.endpoint = os.environ["CHECKS_ENDPOINT"]


@contextmanager
def raised(kind: type[Exception], message: str) -> Iterator[None]:
    """As pytest.raises, which is not installed here."""
    try:
        yield
    except kind as error:
        if re.search(message, str(error)) is None:
            raise AssertionError(f"{error} is not {message}") from error
        return
    raise AssertionError(f"no {kind.__name__}")


def checks_of(modules: list[str]) -> Iterator[tuple[str, Callable[..., None]]]:
    for module in modules:
        for name, check in list(vars(import_module(f"client.torch.{module}")).items()):
            if name.startswith("check_"):
                yield name, check


def failure_of(check: Callable[..., None], directory: Path) -> str | None:
    directory.mkdir()
    arguments = [Checks(directory)] if inspect.signature(check).parameters else []
    try:
        check(*arguments)
    except Exception:  # whatever it is, it is the result
        return traceback.format_exc()
    return None


def main(modules: list[str]) -> None:
    printed: Any = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints
    faulthandler.dump_traceback_later(PATIENCE, exit=True)
    with tempfile.TemporaryDirectory() as scratch:
        for name, check in checks_of(modules):
            row = {"check": name, "failure": failure_of(check, Path(scratch, name))}
            print(json.dumps(row), file=printed, flush=True)  # what the test reads


if __name__ == "__main__":
    main(sys.argv[1:])
