"""Hints of principals with an origin credential of their own: what is fetched ahead for one is requested with that
credential, whichever worker requests it, and serves nobody else to whom the origin has not allowed it."""

from pathlib import Path

from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.origin_credentials import ALICE, ALICE_THERE, BOB, BOB_THERE, KEYS, OURS, fake, refusing
from harness.recording_content import recording_of
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from harness.worker_node import Node

SIZE = 20_000
OBJECTS = [f"set/{number:02}" for number in range(40)]
PLAN = path_of("bucket", ".forebay/plans/order")
RULES = KEYS.format(ttl="60s").replace('freshness = "immutable"', 'freshness = "immutable"\nfollow = true')


def filled(origin: FakeOrigin) -> None:
    for key in OBJECTS:
        origin.store.put_synthetic("bucket", key, SIZE)


def signers(origin: FakeOrigin) -> set[str]:
    """Who signed the requests for the objects."""
    return {
        each.headers["Authorization"].split("Credential=")[1].split("/")[0]
        for each in origin.log.requests
        if each.key in OBJECTS
    }


async def send(rig: Rig, secret: Secret) -> None:
    answer = await rig.client(secret).request("PUT", PLAN, (), "\n".join(OBJECTS).encode())
    assert answer.headers["x-forebay-plan-entries"] == "40", answer


async def test_a_plan_is_fetched_with_its_senders_credential(tmp_path: Path) -> None:
    async with fake() as origin, Rig(origin.endpoint, OURS, tmp_path, rest=RULES) as rig:
        filled(origin)
        refusing(origin, BOB_THERE)
        await send(rig, ALICE)
        await run_loop_until(lambda: rig.parts.jobs.prefetcher.tickets == 40)
        assert signers(origin) == {ALICE_THERE.access}
        for key in OBJECTS[:5]:
            assert (await rig.client(BOB).request("GET", path_of("bucket", key))).status == 403
            answer = await rig.client(ALICE).request("GET", path_of("bucket", key))
            assert (answer.status, answer.headers["x-forebay-cache"]) == (200, "hit-memory")
            assert (await rig.client(TRAINER).request("GET", path_of("bucket", key))).status == 200


async def test_a_plan_has_nothing_that_the_origin_refuses_its_sender(tmp_path: Path) -> None:
    """Also of what is cached already, for others."""
    async with fake() as origin, Rig(origin.endpoint, OURS, tmp_path, rest=RULES) as rig:
        filled(origin)
        for key in OBJECTS[:20]:
            assert (await rig.client().request("GET", path_of("bucket", key))).status == 200
        refusing(origin, BOB_THERE)
        origin.log.requests.clear()
        await send(rig, BOB)
        [plan] = rig.parts.jobs.plans.coordinator.plans()
        await run_loop_until(lambda: rig.parts.jobs.plans.coordinator.plans()[0].failed == 40)
        assert (signers(origin), rig.parts.jobs.prefetcher.tickets, plan.principal) == ({BOB_THERE.access}, 0, "bob")
        for key in OBJECTS:
            assert (await rig.client(BOB).request("GET", path_of("bucket", key))).status == 403


async def test_a_recording_is_followed_with_its_readers_credential(tmp_path: Path) -> None:
    """And nobody else's recording is, for such a reader."""
    name = path_of("bucket", ".forebay/recordings/order")
    async with fake() as origin, Rig(origin.endpoint, OURS, tmp_path, rest=RULES) as rig:
        filled(origin)
        assert (await rig.client(ALICE).request("PUT", name, (), recording_of(OBJECTS))).status == 200
        for secret, number in ((BOB, 16), (ALICE, 24)):  # what is cached needs no plan
            for key in OBJECTS[:number]:
                assert (await rig.client(secret).request("GET", path_of("bucket", key))).status == 200
            if secret is ALICE:
                for key in OBJECTS[24:]:
                    await origin.log.wait_for(1, "GET", key=key)
            else:
                await rig.wait_idle()
            plans = [plan.principal for plan in rig.parts.jobs.plans.coordinator.plans()]
            assert plans == (["alice"] if secret is ALICE else [])
        ahead = [each for each in origin.log.requests if each.key in OBJECTS[24:]]
        assert len(ahead) == 16
        assert all(f"Credential={ALICE_THERE.access}/" in each.headers["Authorization"] for each in ahead)


async def test_the_owner_of_an_object_uses_that_credential_too(tmp_path: Path) -> None:
    async with fake() as origin, Node(origin, tmp_path, 2, rest=RULES) as node:
        filled(origin)
        refusing(origin, OURS)
        plan = await node.client(1, ALICE).request("PUT", PLAN, (), "\n".join(OBJECTS).encode())
        assert plan.status == 200
        for key in OBJECTS:
            await origin.log.wait_for(1, "GET", key=key)
        assert signers(origin) == {ALICE_THERE.access}
