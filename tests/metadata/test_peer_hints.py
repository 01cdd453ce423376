"""Peer hints: kept in memory as something to compare with, and never trusted."""

from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import Version
from harness.fetch_rig import DECISION, NAME, FetchRig, fetch_rig


def head(rig: FetchRig, etag: str, age: float = 0.0) -> Head:
    return head_of(ObjectFacts(Version(etag), 5, "", ()), DECISION.block, rig.now - age)


async def test_a_head_seen_by_another_worker_is_never_fresh() -> None:
    async with fetch_rig() as rig:
        rig.hints.head_seen(NAME, head(rig, '"1"'))
        known = rig.heads.current(NAME)
        assert known is not None
        assert not rig.heads.is_fresh(NAME, known, DECISION, no_cache=False)
        rig.hints.head_seen(NAME, head(rig, '"2"'))
        assert rig.heads.current(NAME) == known, "a known head is not replaced"
