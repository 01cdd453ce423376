"""Version 2 of the OSS SDKs waits 20 seconds for a byte, a read that waits for pending writes takes up to 30. `make
clients` installs the SDK; see clients.toml."""

import asyncio
import os
from pathlib import Path
from typing import Final

import pytest

from compat.clients import load_clients
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.reference_sigv4 import Secret
from harness.write_back_rig import WriteBackRig

SDK: Final = next(client for client in load_clients() if client.name == "alibabacloud-oss-v2")
PROGRAM: Final = Path(__file__).parent / "oss_patience.py"
OWN: Final = Secret("own", "own-secret")
KEYS: Final = (
    '[[auth.keys]]\nid = "own"\nsecret = "own-secret"\ngrants = [{ path = "**", allow = ["read"] }]\n'
    'origin_access_key = "%s"\norigin_secret_key = "%s"\n\n'
)


@pytest.mark.skipif(SDK.missing() is not None, reason="make clients")
async def test_the_oss_sdk_waits_for_a_pending_write(tmp_path: Path) -> None:
    """For longer than it waits for a byte. Its credential of its own reads what the origin has."""
    for patience in (0.4, 4.0, 20.0):  # a machine that is busy may need more for a single step of this
        (directory := tmp_path / f"{patience}").mkdir()
        if (read := await _read_by_sdk(directory, patience)) == "pending":
            return
    pytest.fail(f"the SDK has given up, however long it waits for a byte: {read}")


async def _read_by_sdk(directory: Path, patience: float) -> str:
    """Returns what the SDK has read while the write waits twice as long as it does for a byte, or its error."""
    async with FakeOrigin() as origin:
        own = origin.secret
        async with WriteBackRig(origin, directory, rest=KEYS % (own.access, own.secret)) as rig:
            await rig.prove()
            gate = Gate()
            origin.faults.add(HoldRequest(gate), method="PUT", key="a/object")
            await rig.put("a/object", b"pending")
            rig.parts.requests.reader.interim_interval = patience / 2
            process = await asyncio.create_subprocess_exec(
                *(str(SDK.home / "bin" / "python"), str(PROGRAM), str(patience)),
                cwd=directory,
                env={
                    "PATH": os.environ["PATH"],
                    "AWS_ACCESS_KEY_ID": OWN.access,
                    "AWS_SECRET_ACCESS_KEY": OWN.secret,
                    "ERRAND_ENDPOINT": rig.endpoint,
                    "ERRAND_BUCKET": "ckpt",
                },
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            reading = rig.parts.context.tasks.spawn(process.communicate(), "sdk")
            await run_loop_until(lambda: rig.write_back.pending.waiting > 0 or reading.done())
            asyncio.get_running_loop().call_later(1.4 * patience, gate.open)
            told, _ = await reading
            gate.open()
            return told.decode()
