"""The stand-in for OSS is what the vendor's own SDK takes for OSS, and Forebay in front of it is no different: one
program finds the same at both. `make clients` installs the SDK; see clients.toml."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from compat import host_names
from compat.clients import ROOT, load_clients
from harness.oss_origin import DOMAIN, OSS_SECRET, OssOrigin
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig

SDK: Final = next(client for client in load_clients() if client.name == "oss2")
PROGRAM: Final = Path(__file__).parent / "oss_probe.py"
BUCKET: Final = "witnessed"


async def found_at(endpoint: str, secret: Secret, directory: Path) -> Any:
    hosts = (DOMAIN, f"{BUCKET}.{DOMAIN}", f"no-such-bucket.{DOMAIN}")
    command = host_names.with_names([str(SDK.home / "bin" / "python"), str(PROGRAM)], hosts, directory)
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=directory,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "tests"),
            "HOME": str(directory),
            "AWS_ACCESS_KEY_ID": secret.access,
            "AWS_SECRET_ACCESS_KEY": secret.secret,
            "AWS_REGION": OSS_SECRET.region,
            "ERRAND_ENDPOINT": endpoint,
            "ERRAND_BUCKET": BUCKET,
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    told, complaint = await process.communicate()
    assert process.returncode == 0, complaint.decode(errors="replace")[-3000:]
    return json.loads(told)


async def test_the_vendor_s_sdk_finds_the_same_at_both(tmp_path: Path) -> None:
    missing = SDK.missing() or host_names.missing()
    if missing is not None:
        pytest.skip(missing)
    for name in ("directly", "through"):
        (tmp_path / name).mkdir()
    async with OssOrigin() as origin:
        directly = await found_at(origin.endpoint, OSS_SECRET, tmp_path / "directly")
    async with OssOrigin() as origin, Rig(origin.endpoint, OSS_SECRET, tmp_path, dialect="oss") as rig:
        through = await found_at(rig.endpoint, TRAINER, tmp_path / "through")
    assert through == directly
    assert directly["acl"] == ["default", "private"]
    assert directly["get"][0] is True
    assert directly["get"][2] == directly["get"][3]
    assert directly["beyond"] == [200, 300_000]
    assert directly["absent"] == [["NoSuchKey", 404, "NoSuchKey"]] * 2
    assert directly["no bucket"] == [["NoSuchBucket", 404, "NoSuchBucket"]] * 2
    assert directly["forbidden"][1:] == [409, "FileAlreadyExists"]
    assert directly["pages"] == [[f"it/{number}" for number in range(5)]] * 2
