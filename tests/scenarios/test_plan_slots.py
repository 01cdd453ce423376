"""The slots of a node's plans, which no access key can hold against another."""

from pathlib import Path

from forebay.jobs.plans.plan_coordinator import MAX_PLANS
from harness.clients import path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import metric_value
from harness.oss_client import OssClient
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig


async def send(rig: Rig, name: str, secret: Secret = TRAINER) -> RawAnswer:
    return await rig.client(secret).request("PUT", path_of("b", f".forebay/plans/{name}"), (), b"open/a\n")


def states(rig: Rig, principal: str) -> dict[str, str]:
    plans = rig.parts.jobs.plans.coordinator.plans()
    return {plan.name: plan.state for plan in plans if plan.principal == principal}


async def test_another_key_gets_a_place_of_a_greedy_one(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for number in range(MAX_PLANS):
            assert (await send(rig, f"series/{number}")).status == 200
        assert (await send(rig, "order", READER)).status == 200
        assert states(rig, "reader") == {"order": "running"}
        trainer = states(rig, "trainer")
        assert [name for name, state in trainer.items() if state == "displaced"] == [f"series/{MAX_PLANS - 1}"]
        assert await metric_value(rig, "forebay_plans_displaced_total") == 1

        answer = await rig.client().request("GET", path_of("b", f".forebay/plans/series/{MAX_PLANS - 1}"))
        assert b'"displaced"' in answer.body
        assert len(await rig.parts.jobs.plans.store.plans()) == MAX_PLANS


async def test_the_refusal_says_how_many_plans_a_key_has(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for number in range(MAX_PLANS):
            await send(rig, f"series/{number}")
        refused = await send(rig, "more")
        assert (refused.status, b"<Code>SlowDown<" in refused.body) == (503, True)
        assert b"64 of them this access key's" in refused.body
        path = path_of("b", ".forebay/plans/more")
        by_oss = await OssClient(rig.endpoint, TRAINER).request("PUT", path, (), b"open/a\n")
        assert (by_oss.status, b"64 of them this access key's" in by_oss.body) == (503, True)
        assert len(await rig.parts.jobs.plans.store.plans()) == MAX_PLANS
        assert (await send(rig, "series/5")).status == 200, "a plan replaces the one of its name"


async def test_what_ended_of_one_key_pushes_out_no_other_keys(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        coordinator = rig.parts.jobs.plans.coordinator
        await send(rig, "order", READER)
        await coordinator.cancel(coordinator.plans()[0].id)
        for number in range(120):
            await send(rig, f"series/{number}")
            await coordinator.cancel(coordinator.plans()[0].id)
        assert states(rig, "reader") == {"order": "cancelled"}
        assert list(states(rig, "trainer")) == [f"series/{number}" for number in range(21, 120)]
