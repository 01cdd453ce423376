"""Sends a client on its errand, and reads what it tells."""

import asyncio
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from compat.clients import ROOT, Client
from compat.host_names import CNAME, DOMAIN, TELLING, at_port_80, with_names
from harness.reference_sigv4 import Secret

PATIENCE = 90.0
"""Seconds an errand may take; most take two."""
GUEST = Secret("guest", "guest-secret")
GUEST_TOKEN = "A+token/with=signs"
"""Temporary credentials, for those clients that can have any."""
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""Of the environment of the tests. The rest could point a client elsewhere: AWS_PROFILE, AWS_CA_BUNDLE, a proxy."""


@dataclass(slots=True)
class Report:
    """What a client told of its errand."""

    ended: int | None
    """The exit code; None when it was not done in time."""
    complaint: str
    """The end of its standard error."""
    version: str = ""
    did: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)


async def send(client: Client, endpoint: str, bucket: str, secret: Secret, directory: Path) -> Report:
    """Run the errand of `client` against `endpoint`, in the empty `directory`, until it ends."""
    command = client.command()
    if client.infers:
        port = urlsplit(endpoint).port
        assert port is not None
        async with at_port_80(port) as address:
            command = with_names(command, (TELLING, f"{bucket}.{TELLING}"), directory.parent, address)
            return await _run(client, command, f"http://{TELLING}", bucket, secret, directory)
    if client.named:
        names = (DOMAIN, f"{bucket}.{DOMAIN}", CNAME)
        command = with_names(command, names, directory.parent)
        endpoint = endpoint.replace("127.0.0.1", DOMAIN)
    return await _run(client, command, endpoint, bucket, secret, directory)


async def _run(
    client: Client, command: list[str], endpoint: str, bucket: str, secret: Secret, directory: Path
) -> Report:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env=_environment(client, endpoint, bucket, secret, directory),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        told, complaint = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with what it started: a command-line client, a file system
        told, complaint = await process.communicate()
        return _read(told, complaint, None)
    return _read(told, complaint, process.returncode)


def _read(told: bytes, complaint: bytes, ended: int | None) -> Report:
    report = Report(ended, complaint.decode(errors="replace")[-4000:])
    for line in told.splitlines():
        match json.loads(line):
            case {"version": str(version)}:
                report.version = version
            case {"did": str(deed)}:
                report.did.append(deed)
            case {"again": str(key)}:
                report.again.append(key)
            case other:
                raise AssertionError(f"an errand told {other}")
    return report


def _environment(client: Client, endpoint: str, bucket: str, secret: Secret, directory: Path) -> Mapping[str, str]:
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return {
        **passed_on,
        "PATH": f"{client.home / 'bin'}{os.pathsep}{passed_on.get('PATH', os.defpath)}",
        "PYTHONPATH": str(ROOT / "tests"),
        "HOME": str(directory),
        "AWS_ACCESS_KEY_ID": secret.access,
        "AWS_SECRET_ACCESS_KEY": secret.secret,
        "AWS_DEFAULT_REGION": secret.region,
        "AWS_REGION": secret.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "ERRAND_ENDPOINT": endpoint,
        "ERRAND_BUCKET": bucket,
        "ERRAND_NODE_MODULES": str(client.home / "node_modules"),
        "ERRAND_TOKEN_ACCESS": GUEST.access,
        "ERRAND_TOKEN_SECRET": GUEST.secret,
        "ERRAND_TOKEN": GUEST_TOKEN,
    }
