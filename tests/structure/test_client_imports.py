"""What an import of the client library imports: next to nothing, and nothing that the base install lacks."""

import subprocess
import sys
from typing import Final

import pytest

from structure.source_tree import ROOT

HEAVY: Final = ("asyncio", "concurrent", "email", "http", "logging", "rich", "ssl", "urllib", "xml")
"""Of the standard library, and of the base install's own."""
NOT_IN_THE_BASE_INSTALL: Final = (
    "aiobotocore",
    "aiofiles",
    "aiohappyeyeballs",
    "aiohttp",
    "awscrt",
    "boto3",
    "botocore",
    "cachetools",
    "fastcrc",
    "fsspec",
    "lmdb",
    "multidict",
    "numpy",
    "prometheus_client",
    "torch",
    "urllib3",
    "uvloop",
    "yarl",
)
UNIX_ONLY: Final = ("fcntl", "grp", "mmap", "pwd", "resource", "termios")


def imported(program: str, *refused: str) -> set[str]:
    """The top-level modules that a program imports in a process of its own, where some can't be imported."""
    refusals = "".join(f"sys.modules[{name!r}] = None; " for name in refused)
    paths = f"sys.path[:0] = [{str(ROOT / 'client')!r}, {str(ROOT / 'proxy')!r}]; "
    shown = "; print(*{name for name, module in sys.modules.items() if module is not None})"
    code = f"import sys; {paths}before = set(sys.modules); {refusals}{program}{shown}"
    answer = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return {name.partition(".")[0] for name in answer.stdout.split()}


def test_an_import_of_the_package_imports_nothing_heavy() -> None:
    assert imported("import forebay_client") & {*HEAVY, *NOT_IN_THE_BASE_INSTALL} == set()


def test_the_command_sets_its_handler_before_it_imports() -> None:
    """An interrupt before that prints a traceback."""
    before_the_handler = imported("import forebay_client.cli.main") - imported("import signal")
    assert before_the_handler == {"forebay_client"}


def test_the_help_needs_nothing_that_a_command_runs_with() -> None:
    found = imported(
        "from forebay_client.cli.command_line import run_command_line; run_command_line(['flush', '--help'])"
    )
    # pathlib has the first, and with Python 3.13 the others, where there are such.
    assert found & {*HEAVY, *NOT_IN_THE_BASE_INSTALL, *UNIX_ONLY} - {"urllib", "grp", "pwd"} == set()


def test_every_public_name_can_be_had() -> None:
    import forebay_client  # noqa: PLC0415 # what it is about

    assert [name for name in forebay_client.__all__ if not hasattr(forebay_client, name)] == []
    assert set(forebay_client.__all__) <= set(dir(forebay_client))
    with pytest.raises(AttributeError):
        forebay_client.no_such_name  # noqa: B018 # that there is none


CLIENT: Final = "from forebay_client import Client; Client('http://127.0.0.1:9', access_key='a', secret_key='b')"


AT_FIRST_USE: Final = ("_ssl", "concurrent", "configparser", "ctypes", "email", "http", "logging", "socket", "ssl")
"""Half of what a client took to import: what its first request needs, its first thread, or a profile."""
MOST_MODULES: Final = 90
"""Of the standard library; there are 65 with Python 3.11, 76 with 3.12, 80 with 3.13."""


def test_a_client_imports_few_modules_and_its_own_package_alone() -> None:
    paths = f"sys.path[:0] = [{str(ROOT / 'client')!r}, {str(ROOT / 'proxy')!r}]; "
    code = f"import sys; {paths}before = set(sys.modules); {CLIENT}; print(*sys.modules.keys() - before)"
    answer = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    others = {name for name in answer.stdout.split() if name.partition(".")[0] not in {"forebay", "forebay_client"}}
    assert {name for name in others if name.partition(".")[0] not in sys.stdlib_module_names} == set()
    assert others & {*AT_FIRST_USE, "asyncio", "multiprocessing", "sqlite3", "unittest", "urllib.request"} == set()
    assert len(others) <= MOST_MODULES


def test_the_base_install_suffices_for_a_client() -> None:
    assert "forebay_client" in imported(CLIENT, *NOT_IN_THE_BASE_INSTALL)


def test_a_client_needs_no_module_of_unix() -> None:
    assert "forebay_client" in imported(CLIENT, *NOT_IN_THE_BASE_INSTALL, *UNIX_ONLY)
