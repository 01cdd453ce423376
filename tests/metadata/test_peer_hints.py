"""Peer hints: kept in memory as something to compare with, and never trusted."""

from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import Version
from harness.fetch_rig import DECISION, NAME, FetchRig, fetch_rig


def head(rig: FetchRig, etag: str, age: float = 0.0) -> Head:
    return head_of(ObjectFacts(Version(etag), 5, "", ()), DECISION.block, rig.now - age)


async def test_a_changed_head_replaces_an_older_one_only() -> None:
    async with fetch_rig() as rig:
        rig.hints.head_changed(NAME, head(rig, '"2"'))
        assert rig.heads.current(NAME) is None, "a head that a fence has dropped is not brought back"
        rig.tiers.memory.put_head(NAME, head(rig, '"1"', age=5))
        rig.hints.head_changed(NAME, head(rig, '"0"', age=9))
        assert rig.heads.current(NAME) == head(rig, '"1"', age=5)
        rig.hints.head_changed(NAME, head(rig, '"2"'))
        assert rig.heads.current(NAME) == head(rig, '"2"')


async def test_a_removed_head_is_forgotten_but_not_its_successor() -> None:
    async with fetch_rig() as rig:
        rig.tiers.memory.put_head(NAME, new := head(rig, '"2"'))
        rig.hints.head_removed(NAME, head(rig, '"1"'))
        assert rig.heads.current(NAME) == new
        rig.hints.head_removed(NAME, new)
        assert rig.heads.current(NAME) is None


async def test_a_head_seen_by_another_worker_is_never_fresh() -> None:
    async with fetch_rig() as rig:
        rig.hints.head_seen(NAME, head(rig, '"1"'))
        known = rig.heads.current(NAME)
        assert known is not None
        assert not rig.heads.is_fresh(NAME, known, DECISION, no_cache=False)
        rig.hints.head_seen(NAME, head(rig, '"2"'))
        assert rig.heads.current(NAME) == known, "a known head is not replaced"
