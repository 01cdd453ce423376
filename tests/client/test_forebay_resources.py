"""Plans, warm-up, flushes and data sets: with a Forebay, and with a server that has none of them."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from forebay_client import AccessDenied, BatchKey, Client, InvalidRequest
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

RULES = '[[rules]]\npath = "data/open/**"\nname = "train"\nfreshness = "immutable"\n'


def client_of(endpoint: str, secret: Secret, **arguments: Any) -> Client:
    return Client(endpoint, access_key=secret.access, secret_key=secret.secret, socket="", retries=0, **arguments)


@pytest.mark.parametrize("dialect", ["s3", "oss"])
async def test_forebay_has_them(tmp_path: Path, dialect: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        for number in range(5):
            origin.store.put("data", f"open/{number}", b"content")

        def dialogue(client: Client) -> None:
            plan = client.plan("data", "epoch-0", ["open/3", BatchKey("open/1", 2, 5), "closed/1"])
            assert (plan.is_accepted, plan.entries, plan.dropped) == (True, 2, 1)
            assert plan.progress()["entries"] == 2
            keys = [f"open/{number}" for number in range(5)] + ["closed/1"]
            for epoch, order in enumerate(([4, 0, 5, 4], [1])):
                compact = client.plan("data", f"compact-{epoch}", keys, order=order)
                assert (compact.entries, compact.dropped) == ((3, 1), (1, 0))[epoch]
            with pytest.raises(InvalidRequest, match="there is no key 6"):
                client.plan("data", "compact", keys, order=[6])
            client.get("data", "open/3")
            assert [row["name"] for row in client.datasets("data")] == ["train"]
            plan.cancel()
            assert plan.progress() == {}, "it is no plan any more"
            client.flush("data")  # without a journal
            assert client.warm("data", "open/").is_accepted
            assert client.stats.ignored == {"flush": 1}
            with pytest.raises(InvalidRequest, match="line end"):
                client.plan("data", "epoch-1", ["a\nb"])
            with pytest.raises(InvalidRequest, match="members"):
                client.plan("data", "epoch-1", [BatchKey("a.tar", member="b")])

        with client_of(rig.endpoint, READER, dialect=dialect) as client:
            await asyncio.to_thread(dialogue, client)
        for job in rig.parts.jobs.warm_ups.jobs():
            await rig.parts.jobs.warm_ups.wait(job.id)
        rig.parts.jobs.plans.coordinator.close()


@pytest.mark.parametrize("validation", ["when_required", "when_supported"])
async def test_only_who_wants_checksums_has_them_looked_up_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, validation: str
) -> None:
    """An origin that shows none with a range is sent a HEAD besides: one for each large object of a cold epoch."""
    monkeypatch.setenv("AWS_RESPONSE_CHECKSUM_VALIDATION", validation)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put_synthetic("data", "open/large", 40 << 20)
        with client_of(rig.endpoint, READER) as client:
            await asyncio.to_thread(client.plan, "data", "epoch-0", ["open/large"], order=[0])
        await run_loop_until(lambda: len(rig.parts.storage.tiers.memory.ahead) > 0)
        if validation == "when_supported":
            await run_loop_until(lambda: origin.log.count("HEAD") > 0)
        assert origin.log.count("HEAD") == (1 if validation == "when_supported" else 0)
        rig.parts.jobs.plans.coordinator.close()


async def test_any_other_server_is_sent_nothing() -> None:
    async with FakeOrigin() as origin:
        origin.store.put("data", "k", b"content")

        def dialogue(client: Client) -> None:
            plan = client.plan("data", "epoch-0", ["k"])
            assert (plan.is_accepted, plan.progress()) == (False, {})
            plan.cancel()
            assert client.warm("data", ["k"]).is_accepted is False
            client.flush("data")
            assert client.datasets("data") == []
            assert client.stats.ignored == {"plan": 1, "warm": 1, "flush": 1, "datasets": 1}

        with client_of(origin.endpoint, origin.secret) as client:
            await asyncio.to_thread(dialogue, client)
        assert [entry.operation for entry in origin.log.requests] == ["ListObjectsV2"]


def hashes_of(call: Callable[[], object]) -> int:
    """How many SHA-256 are begun in this thread meanwhile."""
    found = 0

    def count(_frame: FrameType, event: str, argument: Any) -> None:
        nonlocal found
        found += event == "c_call" and argument is sha256

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


async def test_no_digest_is_computed_for_who_has_no_plans(tmp_path: Path) -> None:
    keys = [f"open/{number}" for number in range(5)]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        origin.store.put("data", "k", b"content")

        def hashes(client: Client) -> int:
            client.plan("data", "epoch", ["k"])  # now it is known what the server has
            signed = hashes_of(lambda: client.plan("data", "epoch", ["k"]))
            return hashes_of(lambda: client.plan("data", "compact", keys, order=[0])) - signed

        with client_of(origin.endpoint, origin.secret) as client:
            assert await asyncio.to_thread(hashes, client) == 0
            with pytest.raises(InvalidRequest, match="no key 9"):
                await asyncio.to_thread(client.plan, "data", "epoch", keys, order=[9])
        with client_of(rig.endpoint, READER) as client:
            assert await asyncio.to_thread(hashes, client) > 0
        rig.parts.jobs.plans.coordinator.close()


async def test_keys_that_changed_in_place_are_other_keys(tmp_path: Path) -> None:
    """A list was known by its identity, so its plan was of the keys that it had before."""
    keys = ["closed/0", "open/1", "open/2"]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES) as rig:
        with client_of(rig.endpoint, READER) as client:
            plan = await asyncio.to_thread(client.plan, "data", "first", keys, order=[0])
            assert (plan.entries, plan.dropped) == (0, 1)
            keys[0], keys[1] = keys[1], keys[0]
            plan = await asyncio.to_thread(client.plan, "data", "second", keys, order=[0])
            assert (plan.entries, plan.dropped) == (1, 0)
            keys[2] = "no\nline"
            with pytest.raises(InvalidRequest, match="line end"):
                await asyncio.to_thread(client.plan, "data", "third", keys, order=[0])
            keys[2:] = ["open/2"]
            equal = ("open/1", "closed/0", "open/2")

            def hashes(same: Sequence[str]) -> int:
                return hashes_of(lambda: client.plan("data", "third", same, order=[0]))

            again = await asyncio.to_thread(hashes, keys)
            assert await asyncio.to_thread(hashes, equal) == again, "no digest was computed"
        rig.parts.jobs.plans.coordinator.close()


async def test_a_server_that_lets_nobody_list_has_none_of_them() -> None:
    async with FakeOrigin() as origin, asyncio.timeout(30):
        origin.faults.add(actions.FORBIDDEN)
        with client_of(origin.endpoint, origin.secret) as client:
            plan = await asyncio.to_thread(client.plan, "data", "epoch-0", ["k"])
        assert plan.is_accepted is False


@pytest.mark.parametrize("secret", [TRAINER, "the origin's, another secret"])
async def test_wrong_credentials_are_no_missing_resource(secret: Secret | str) -> None:
    async with FakeOrigin() as origin, asyncio.timeout(30):
        wrong = secret if isinstance(secret, Secret) else replace(origin.secret, secret="wrong")
        with client_of(origin.endpoint, wrong) as client, pytest.raises(AccessDenied):
            await asyncio.to_thread(client.plan, "data", "epoch-0", ["k"])
        assert client.stats.ignored == {}
