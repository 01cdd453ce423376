"""Programs in the environment of PyTorch (make clients-torch), where nothing of Forebay is installed: they have its
source in PYTHONPATH."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from compat.clients import ROOT, load_clients
from harness.reference_sigv4 import Secret

_CLIENT: Final = next(client for client in load_clients() if client.name == "s3torchconnector")
_PATIENCE: Final = 240.0
"""Seconds; most programs need four."""
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR")


def python_of_torch() -> str:
    """Its interpreter. Skips the test where there is none."""
    missing = _CLIENT.missing()
    if missing is not None:
        pytest.skip(missing)
    return str(_CLIENT.home / "bin" / "python")


def torch_environ(home: Path, endpoint: str, secret: Secret, **more: str) -> dict[str, str]:
    """The environment of a program there: a client of `endpoint`, and nothing of the user's."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        **passed_on,
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("client", "proxy", "tests")),
        "OMP_NUM_THREADS": "1",
        "HOME": str(home),
        "AWS_ACCESS_KEY_ID": secret.access,
        "AWS_SECRET_ACCESS_KEY": secret.secret,
        "AWS_REGION": secret.region,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "CHECKS_ENDPOINT": endpoint,
        **more,
    }


async def output_of(command: list[str], directory: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    """What a program printed on standard output, and on standard error. Its process group is gone afterwards."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env=dict(environ),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        printed, complaint = await asyncio.wait_for(process.communicate(), _PATIENCE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the workers of its loaders
        printed, complaint = await process.communicate()
    return printed.decode(), complaint.decode(errors="replace")


async def pass_checks(modules: list[str], directory: Path, environ: Mapping[str, str]) -> None:
    """Runs the checks of modules of tests/client/torch. Fails with the names and tracebacks of those that fail."""
    command = [python_of_torch(), "-m", "client.torch.torch_checks", *modules]
    printed, complaint = await output_of(command, directory, environ)
    rows = [json.loads(line) for line in printed.splitlines()]
    failed = {row["check"]: row["failure"] for row in rows if row["failure"] is not None}
    if len(rows) != sum(
        (ROOT / f"tests/client/torch/{module}.py").read_text().count("\ndef check_") for module in modules
    ):
        failed["the rest"] = f"did not run: {complaint[-4000:]}"
    if failed:
        pytest.fail("\n".join(f"{name}: {failure}" for name, failure in failed.items()), pytrace=False)
