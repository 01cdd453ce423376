"""Pinned prefixes of whole Forebays: each of their blocks is a hit, whatever was read and whoever has ended since."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.forebay_process import ForebayProcess, forebay_process, run_forebay
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig, configuration_of
from harness.worker_node import Node, request_admin

KIB, MIB = 1 << 10, 1 << 20
SIZE = 100 * KIB
TIER = 8 * MIB
PINNED = [f"train/{number:02}" for number in range(20)]
SCANNED = [f"scan/{number % 5}/{number:03}" for number in range(20 * TIER // MIB)]
"""Half a MiB each: ten times the tier, and twice of it under each number."""
RULES = '[[rules]]\npath = "bucket/train/**"\nname = "train"\n[[rules]]\npath = "**"\nfreshness = "immutable"\n'
SETTINGS = {"memory": "1MiB", "ssd": "8MiB", "rest": RULES}


@pytest.fixture
async def origin() -> AsyncIterator[FakeOrigin]:
    async with FakeOrigin() as origin:
        for key in PINNED:
            origin.store.put("bucket", key, key.encode() * (SIZE // len(key)))
        scanned = bytes(512 * KIB)
        for key in SCANNED:
            origin.store.put("bucket", key, scanned)
        yield origin


async def bytes_fetched(origin: FakeOrigin, endpoint: str, keys: list[str], secret: Secret = TRAINER) -> int:
    """Reads all of these, and returns the bytes of them that the origin has sent for that."""
    origin.log.requests.clear()
    client = RawClient(endpoint, secret)
    for key in keys:
        answer = await client.request("GET", f"/bucket/{key}")
        assert (answer.status, answer.body) == (200, key.encode() * (SIZE // len(key)))
    return sum(entry.bytes_sent for entry in origin.log.requests if entry.operation == "GetObject")


class Launcher:
    """Starts Forebays of one directory, one after the other, and types commands to them."""

    def __init__(self, origin: FakeOrigin, directory: Path, workers: int) -> None:
        self.directory = directory
        server = f"workers = {workers}\n"
        self._text = configuration_of(origin.endpoint, origin.secret, directory, server=server, **SETTINGS)
        self._admin = ""
        self.endpoint = ""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[ForebayProcess]:
        file = self.directory / "forebay.toml"
        await asyncio.to_thread(file.write_text, self._text)
        await asyncio.to_thread(file.chmod, 0o600)
        async with forebay_process("serve", "--config", str(file), directory=self.directory) as process:
            await process.wait_for_output("metrics and control on")
            [self._admin] = re.findall(r"metrics and control on http://(127\.0\.0\.1:[0-9]+)", process.output)
            self.endpoint = process.endpoint
            yield process

    async def type(self, *arguments: str) -> tuple[int, str]:
        return await run_forebay(*arguments, directory=self.directory, environ={"FOREBAY_ADMIN": self._admin})


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.long), 4])
async def test_a_scan_and_a_kill_leave_it(origin: FakeOrigin, tmp_path: Path, workers: int) -> None:
    """Processes, as only these can be killed, and the commands, as an operator types them."""
    launcher = Launcher(origin, tmp_path, workers)
    async with launcher.serving() as process:
        code, output = await launcher.type("warm", "s3://bucket/train/", "--pin", "--wait")
        assert code == 0, output
        await launcher.type("warm", "s3://bucket/scan/", "--wait")
        assert await bytes_fetched(origin, launcher.endpoint, PINNED) == 0
        await process.kill()
    async with launcher.serving():
        await launcher.type("warm", "s3://bucket/scan/0/", "--wait")
        assert await bytes_fetched(origin, launcher.endpoint, PINNED) == 0
        code, output = await launcher.type("pins", "--json")
        [pin] = [json.loads(line) for line in output.splitlines()]
        assert (pin["bucket"], pin["prefix"], pin["objects"]) == ("bucket", "train/", 20)
        assert 20 * SIZE * 0.99 < pin["pinned"] < 20 * SIZE * 1.05
        code, output = await launcher.type("unpin", "s3://bucket/train/")
        assert code == 0, output
        # What was just read has a second chance, like any other block: a scan of several tiers leaves it none.
        await launcher.type("warm", "s3://bucket/scan/", "--wait")
        assert await bytes_fetched(origin, launcher.endpoint, PINNED) > 3 * SIZE
        assert await launcher.type("pins", "--json") == (0, "")


async def test_each_worker_pins_and_finds_the_pins(origin: FakeOrigin, tmp_path: Path) -> None:
    async with Node(origin, tmp_path, 2, **SETTINGS) as node:
        status, pin = await node.request_admin("POST", "/v1/pins", {"bucket": "bucket", "prefix": "train/"})
        assert (status, pin["objects"], pin["pinned"]) == (201, 20, 0)
        killed = await node.kill_worker(0)
        await node.wait_restarted(0, killed)
        assert (await node.request_admin("POST", "/v1/config/reload"))[0] == 200
        await bytes_fetched(origin, node.endpoint(0), PINNED)
        _, job = await node.request_admin("POST", "/v1/jobs", {"bucket": "bucket", "prefix": "scan/2/"})
        await node.wait_job(job["id"])
        assert await bytes_fetched(origin, node.endpoint(1), PINNED) == 0
        _, pins = await node.request_admin("GET", "/v1/pins")
        assert pins["pinned"] == pins["pins"][0]["pinned"] > 20 * SIZE * 0.99
        _, stats = await node.request_admin("GET", "/v1/stats")
        assert [tier["pinned"] for tier in stats["tiers"]] == [0, pins["pinned"]]
        _, sets = await node.request_admin("GET", "/v1/datasets")
        assert [each["pinned"] for each in sets["data_sets"] if each["name"] == "train"] == [pins["pinned"]]
        _, metrics = await node.request_admin("GET", "/metrics")
        [gauge] = re.findall(r'forebay_tier_pinned_bytes\{tier="ssd"\} (\S+)', str(metrics))
        assert float(gauge) == pins["pinned"]


async def test_a_refused_pin_starts_no_job(origin: FakeOrigin, tmp_path: Path) -> None:
    async with Rig(origin.endpoint, origin.secret, tmp_path, **SETTINGS) as rig:
        status, refusal = await request_admin(
            rig.admin, "POST", "/v1/jobs", {"locations": ["s3://bucket/train/", "s3://bucket/scan/"], "pin": True}
        )
        assert (status, refusal["error"]) == (409, "pin_refused")
        assert "s3://bucket/scan/ has at least" in refusal["message"]
        assert (await request_admin(rig.admin, "GET", "/v1/pins"))[1]["pins"] == []
        assert (await request_admin(rig.admin, "GET", "/v1/jobs"))[1]["jobs"] == []
        status, refusal = await request_admin(rig.admin, "DELETE", "/v1/pins?bucket=bucket&prefix=train/")
        assert (status, refusal["error"]) == (404, "no_such_pin")


async def test_a_pin_lets_nobody_read(origin: FakeOrigin, tmp_path: Path) -> None:
    async with Rig(origin.endpoint, origin.secret, tmp_path, **SETTINGS) as rig:
        _, job = await request_admin(
            rig.admin, "POST", "/v1/jobs", {"bucket": "bucket", "prefix": "train/", "pin": True}
        )
        await rig.parts.jobs.warm_ups.wait(job["id"])
        assert rig.parts.storage.tiers.ssd is not None
        for secret in (READER, Secret("nobody", "secret")):
            for method in ("GET", "HEAD"):
                assert (await rig.client(secret).request(method, f"/bucket/{PINNED[0]}")).status == 403
        assert (await rig.client(READER).request("GET", "/bucket/?list-type=2&prefix=train/")).status == 403
        await rig.restart()
        assert await bytes_fetched(origin, rig.endpoint, PINNED) == 0


async def test_replaced_and_deleted_objects_free_their_room(origin: FakeOrigin, tmp_path: Path) -> None:
    async with Rig(origin.endpoint, origin.secret, tmp_path, **SETTINGS) as rig:
        await request_admin(rig.admin, "POST", "/v1/pins", {"bucket": "bucket", "prefix": "train/"})
        await bytes_fetched(origin, rig.endpoint, PINNED)
        tier = rig.parts.storage.tiers.ssd
        assert tier is not None
        await tier.flush()
        before = sum(tier.pins.used_by().values())
        for key in PINNED[:5]:
            assert (await rig.client().request("DELETE", f"/bucket/{key}")).status == 204
        for key in PINNED[5:10]:
            assert (await rig.client().request("PUT", f"/bucket/{key}", body=b"small")).status == 200
        await tier.flush()
        assert sum(tier.pins.used_by().values()) == before // 2
