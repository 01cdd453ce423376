"""Head hints: bounded, each object once at a time."""

from forebay.core.names import ObjectName
from forebay.jobs.warm_up.head_hints import AT_ONCE, MAX_WAITING, HeadHints
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.origin.turns.request_turns import RequestTurns
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, FetchRig, fetch_rig


def hints_of(rig: FetchRig) -> HeadHints:
    turns = RequestTurns(64, "reads", rig.timers).background
    source, rules = rig.block_source(deadline=5.0), Rules([], DECISION)
    warmer = ObjectWarmer(rig.resolver, rig.openings, source, lambda _bucket: turns, lambda: rules, Peers())
    return HeadHints(warmer, rig.tasks.spawn)


async def test_each_object_is_warmed_once_and_a_few_at_a_time() -> None:
    async with fetch_rig() as rig:
        names = [ObjectName("bucket", f"key{number}") for number in range(10)]
        for name in names:
            rig.origin.store.put_synthetic(*name, 2 * BLOCK)
        gate, hints = Gate(), hints_of(rig)
        rig.origin.faults.add(actions.HoldHead(gate))
        for name in names * 3:
            hints.add(name)
        await gate.reached(AT_ONCE)
        assert repr(hints) == "<HeadHints 4 running, 6 waiting>"
        gate.open()
        await rig.tasks.wait_idle()
        assert rig.origin.log.count("GET", "GetObject") == 10
        assert all(rig.tiers.memory.objects.cached_bytes(name) == 2 * BLOCK for name in names)
        assert repr(hints) == "<HeadHints 0 running, 0 waiting>"


async def test_hints_are_bounded_and_may_be_wrong() -> None:
    async with fetch_rig() as rig:
        hints = hints_of(rig)
        for number in range(MAX_WAITING + 500):
            hints.add(ObjectName("bucket", f"missing{number}"))
        await rig.tasks.wait_idle()
        assert rig.origin.log.count() <= MAX_WAITING + AT_ONCE
