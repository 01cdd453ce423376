"""The origin refuses Forebay's own credential: clients are not blamed, operators see it, and it ends with a reload."""

import logging
import time
from dataclasses import replace
from pathlib import Path

import aiohttp
import pytest

from forebay.origin.credentials import StaticCredentials
from harness.clients import path_of
from harness.fake.actions import FORBIDDEN, Respond
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.oss_client import OssClient, told
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from harness.swift import SwiftOrigin
from harness.warm_orders import start_job
from harness.worker_node import Node

TARGET = path_of("bucket", "key")
CODES = {
    "key": "InvalidAccessKeyId",
    "secret": "SignatureDoesNotMatch",
    "region": "AuthorizationHeaderMalformed",
}
REFUSED = "The origin refuses Forebay's own credential ({code})."


def wrong(secret: Secret, field: str) -> Secret:
    match field:
        case "key":
            return replace(secret, access="AKIAWRONG")
        case "secret":
            return replace(secret, secret="wrong")
        case _:
            return replace(secret, region="elsewhere-1")


async def readyz(rig: Rig, wanted: int) -> str:
    """The answer of /readyz, once the origin was looked at and it has this status."""
    await rig.worker.origin_watch.first_check.wait()
    async with aiohttp.ClientSession() as session:
        while True:  # each try is a request: no busy loop
            async with session.get(f"{rig.admin}/readyz") as answer:
                if answer.status == wanted:
                    return await answer.text()


def assert_the_origins_fault(answer: RawAnswer, code: str) -> None:
    assert (answer.status, told(answer, "Code")) == (503, "ServiceUnavailable"), answer.body
    assert told(answer, "Message").startswith(REFUSED.format(code=code))
    assert "AKIA" not in answer.body.decode()


@pytest.mark.parametrize("field", CODES)
async def test_clients_of_both_dialects_are_not_blamed(
    tmp_path: Path, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        with caplog.at_level(logging.INFO, "forebay"):
            async with Rig(origin.endpoint, wrong(origin.secret, field), tmp_path) as rig:
                used = wrong(origin.secret, field).access
                assert f"The origin refuses Forebay's key {used}: {CODES[field]}" in await readyz(rig, 503)
                for method, body in (("GET", b""), ("PUT", b"new"), ("DELETE", b"")):
                    for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
                        assert_the_origins_fault(await client.request(method, TARGET, (), body), CODES[field])
                assert (await rig.client().request("HEAD", TARGET)).status == 503
                assert (await rig.client().request("GET", path_of("bucket"))).status == 503
                stats = await rig.worker.control.stats()
                assert (stats.origin.state, stats.origin.credential) == ("reachable", "refused")
                metrics = await rig.worker.control.metrics()
                assert 'forebay_origin_credential_refused{origin="default"} 1.0' in metrics
                assert f'forebay_origin_credential_refusals_total{{code="{CODES[field]}"}}' in metrics
        lines = [line for line in caplog.messages if line.startswith("the origin refuses Forebay's key")]
        assert len(lines) == 1
        assert origin.store.get("bucket", "key") is not None


async def test_a_skewed_clock_is_named(tmp_path: Path) -> None:
    async with FakeOrigin(clock=lambda: time.time() + 1_800) as origin:
        origin.store.put("bucket", "key", b"content")
        async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
            assert "behind the origin's" in await readyz(rig, 503)
            assert_the_origins_fault(await rig.client().request("GET", TARGET), "RequestTimeTooSkewed")


@pytest.mark.parametrize("field", ["secret", "region"])
async def test_a_real_origin_that_refuses(swift: SwiftOrigin, tmp_path: Path, field: str) -> None:
    bucket = swift.fresh_bucket()
    async with Rig(swift.endpoint, wrong(swift.secret, field), tmp_path) as rig:
        assert CODES[field] in await readyz(rig, 503)
        for method in ("GET", "PUT"):
            assert_the_origins_fault(await rig.client().request(method, path_of(bucket, "key")), CODES[field])
        assert (await rig.client().request("HEAD", path_of(bucket, "key"))).status == 503


@pytest.mark.parametrize("field", CODES)
async def test_an_oss_origin_that_refuses(tmp_path: Path, field: str) -> None:
    async with OssOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        async with Rig(origin.endpoint, wrong(origin.secret, field), tmp_path, dialect="oss") as rig:
            assert "credential" in await readyz(rig, 503)
            for client in (rig.client(), OssClient(rig.endpoint, TRAINER)):
                assert_the_origins_fault(await client.request("GET", TARGET), CODES[field])
                assert (await client.request("HEAD", TARGET)).status == 503


async def test_a_denial_is_not_a_refused_credential(tmp_path: Path) -> None:
    """Most keys may not list buckets, and some objects are denied to them."""
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        origin.faults.add(FORBIDDEN)
        async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
            await readyz(rig, 200)
            assert (await rig.worker.control.stats()).origin.credential == "accepted"
            denied = await rig.client().request("GET", TARGET)
            assert (denied.status, told(denied, "Code")) == (403, "AccessDenied")
            assert (await rig.client().request("HEAD", TARGET)).status == 403


@pytest.mark.parametrize(("status", "code"), [(400, "ExpiredToken"), (403, "InvalidAccessKeyId")])
async def test_a_head_just_after_the_end_of_the_key(tmp_path: Path, status: int, code: str) -> None:
    """The origin's response has no document, and the key was accepted a moment before."""
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        async with Rig(origin.endpoint, origin.secret, tmp_path) as rig:
            await readyz(rig, 200)
            client = rig.worker.parts.origins.of("bucket")
            client.use_credentials(StaticCredentials(await client.credentials.current()))  # no probe was just now
            assert (await rig.client().request("GET", TARGET)).status == 200
            origin.faults.add(Respond(status, code, "The provided token has expired."))
            assert (await rig.client().request("HEAD", path_of("bucket", "other"))).status == 503
            assert_the_origins_fault(await rig.client().request("GET", path_of("bucket", "other")), code)


async def test_a_reload_puts_the_credential_right(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        async with Rig(origin.endpoint, wrong(origin.secret, "secret"), tmp_path) as rig:
            await readyz(rig, 503)
            file = tmp_path / "forebay.toml"
            file.write_text(file.read_text().replace('"wrong"', f'"{origin.secret.secret}"'))
            changed = await rig.worker.control.reload_config()
            assert changed is not None
            assert changed.needs_restart == ()
            await readyz(rig, 200)
            assert (await rig.client().request("GET", TARGET)).body == b"content"
            job = await start_job(rig.parts.jobs.warm_ups, "bucket", "", concurrency=1)
            await run_loop_until(lambda: job.state != "running")
            assert (job.failed, job.done) == (0, 1)


async def test_the_origin_accepts_the_key_again(tmp_path: Path) -> None:
    """A request is enough: no probe has to be waited for."""
    async with FakeOrigin(secrets=(Secret("other", "s", "r"),)) as origin:
        origin.store.put("bucket", "key", b"content")
        secret = Secret("late", "s", "r")
        async with Rig(origin.endpoint, secret, tmp_path) as rig:
            await readyz(rig, 503)
            origin.allow(secret)
            assert (await rig.client().request("GET", TARGET)).body == b"content"
            await readyz(rig, 200)


async def test_no_credential_at_all(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path, origin='profile = "there-is-none"')
        lines = rig.configuration.splitlines()
        rig.configuration = "\n".join(line for line in lines if not line.startswith(("access_key", "secret_key")))
        async with rig:
            assert "Forebay has no credential for the origin" in await readyz(rig, 503)
            answer = await rig.client().request("GET", TARGET)
            assert (answer.status, told(answer, "Code")) == (503, "ServiceUnavailable")
            assert told(answer, "Message").startswith("Forebay has no credential for the origin.")
            assert (await rig.worker.control.stats()).origin.credential == "missing"


async def test_a_principals_refused_credential_is_its_own(tmp_path: Path) -> None:
    keys = """
[[auth.keys]]
id = "alice"
secret = "alice-secret"
origin_access_key = "alicethere"
origin_secret_key = "s"
grants = [{ path = "**", allow = ["read"] }]
"""
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        async with Rig(origin.endpoint, origin.secret, tmp_path, rest=keys) as rig:
            await readyz(rig, 200)
            answer = await rig.client(Secret("alice", "alice-secret")).request("GET", TARGET)
            assert (answer.status, told(answer, "Code")) == (503, "ServiceUnavailable")
            assert told(answer, "Message").startswith(
                "The origin refuses the credential that Forebay has for this access key (InvalidAccessKeyId)."
            )
            assert (await rig.client(Secret("alice", "alice-secret")).request("HEAD", TARGET)).status == 503
            assert (await rig.client().request("GET", TARGET)).status == 200
            await readyz(rig, 200)


async def test_every_worker_reports_a_refused_credential(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "key", b"content")
        async with Node(origin, tmp_path) as node:
            right = (await node.request_admin("GET", "/v1/stats"))[1]
            assert right["origin"]["credential"] in {"accepted", "unknown"}
            node.configure(node.configuration.replace(f'"{origin.secret.secret}"', '"wrong"'))
            assert (await node.request_admin("POST", "/v1/config/reload"))[0] == 200
            for worker in (0, 1):
                for key in (node.key_owned_by(0), node.key_owned_by(1)):
                    assert_the_origins_fault(
                        await node.client(worker).request("GET", path_of("bucket", key)), "SignatureDoesNotMatch"
                    )
            faults = None
            while not faults:
                faults = await node.supervisor.control.origin_faults()
            assert "SignatureDoesNotMatch" in faults[0]
