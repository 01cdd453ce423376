"""Object heads: which are fresh, and which may be stored."""

from dataclasses import replace

import pytest

from forebay.core.heads import Head, ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.policy.freshness import AlwaysRevalidate
from harness.fake.store import md5_etag
from harness.fetch_rig import DECISION, NAME, FetchRig, fetch_rig
from harness.held_ssd import HeldSsd

CRC = ("x-oss-hash-crc64ecma", "7")


def head(
    rig: FetchRig, etag: str = '"1"', version_id: str | None = None, headers: tuple[tuple[str, str], ...] = ()
) -> Head:
    return head_of(ObjectFacts(Version(etag, version_id), 5, "", headers), DECISION.block, rig.now)


def by_id(rig: FetchRig, version_id: str) -> Head:
    return replace(head(rig, version_id=version_id), by_id=True)


async def test_a_head_by_id_is_never_the_current_one() -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        rig.heads.store(NAME, version := by_id(rig, "v1"), since)
        assert rig.heads.by_id(NAME, "v1") == version
        assert rig.heads.current(NAME) is None
        rig.heads.remove_by_id(NAME, "v1")
        assert rig.heads.by_id(NAME, "v1") is None


@pytest.mark.parametrize("bucket", [False, True])
async def test_a_write_makes_heads_by_id_unusable(bucket: bool) -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        rig.heads.store(NAME, by_id(rig, "v1"), since)
        if bucket:
            rig.fences.raise_bucket(NAME.bucket)
        else:
            rig.fences.raise_object(NAME)
        assert rig.heads.by_id(NAME, "v1") is None


async def test_an_in_doubt_write_makes_earlier_heads_by_id_unusable() -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        rig.heads.store(NAME, by_id(rig, "v1"), since)
        rig.in_doubt_writes.mark_object(NAME, rig.now + 10)
        assert rig.heads.by_id(NAME, "v1") is None


async def test_a_fence_forbids_to_store_heads_requested_before_it() -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        rig.fences.raise_object(NAME)
        rig.heads.store(NAME, head(rig), since)
        rig.heads.store(NAME, by_id(rig, "v1"), since)
        other = ObjectName(NAME.bucket, "other")
        rig.heads.store(other, head(rig), since)
        assert (rig.heads.current(NAME), rig.heads.by_id(NAME, "v1")) == (None, None)
        assert rig.heads.current(other) is not None


async def test_a_head_of_no_bytes_is_stored_if_its_etag_proves_them() -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        for etag, is_proved in (('"1"', False), (md5_etag(b""), True)):
            empty = replace(head(rig, etag), facts=replace(head(rig, etag, "v1").facts, size=0))
            rig.heads.store(NAME, empty, since)
            rig.heads.store(NAME, replace(empty, by_id=True), since)
            assert (rig.heads.current(NAME) is not None, rig.heads.by_id(NAME, "v1") is not None) == (is_proved,) * 2


@pytest.mark.parametrize("is_by_id", [False, True])
async def test_only_the_same_version_can_contradict_a_size(is_by_id: bool) -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        known = replace(head(rig, version_id="v1"), by_id=is_by_id)
        rig.heads.store(NAME, known, since)
        assert rig.heads.store(NAME, known, since) is None
        longer = replace(known, facts=replace(known.facts, size=6))
        assert rig.heads.store(NAME, longer, since) == known, "it is to be forgotten first"
        other = replace(longer, facts=replace(longer.facts, version=Version('"2"', "v1")), by_id=True)
        assert rig.heads.store(NAME, other, since) is None


async def test_a_clock_that_was_set_back_ends_no_doubt() -> None:
    async with fetch_rig() as rig:
        known = head(rig)
        rig.in_doubt_writes.mark_object(NAME, rig.now - 0.25)
        assert rig.heads.is_fresh(NAME, known, DECISION, no_cache=False)
        rig.now -= 0.5
        assert not rig.heads.is_fresh(NAME, known, DECISION, no_cache=False)


async def test_a_head_learnt_while_a_write_is_in_doubt_is_not_on_the_disk() -> None:
    async with fetch_rig(ssd=(ssd := HeldSsd())) as rig:
        since, _ = rig.heads.now()
        rig.in_doubt_writes.mark_object(NAME, rig.now + 10)
        rig.heads.store(NAME, doubted := head(rig), since)
        assert (rig.tiers.memory.head(NAME), ssd.head(NAME)) == (doubted, None)
        rig.now += 11
        rig.heads.store(NAME, later := head(rig), since)
        assert (rig.tiers.memory.head(NAME), ssd.head(NAME)) == (later, later)


async def test_a_crc_is_kept_for_the_same_version_only() -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        rig.heads.store(NAME, head(rig, headers=(CRC,)), since)
        same, other = head(rig).facts, head(rig, '"2"').facts
        assert rig.heads.with_known_facts(NAME, same).headers == (CRC,)
        assert rig.heads.with_known_facts(NAME, other).headers == ()
        own = ("X-Oss-Hash-Crc64ecma", "8")
        assert rig.heads.with_known_facts(NAME, replace(same, headers=(own,))).headers == (own,)


CHECKSUM = ("x-amz-checksum-crc32", "AAAAAA==")


@pytest.mark.parametrize("headers", [(), (CHECKSUM,)], ids=["none", "one"])
async def test_known_checksums_follow_the_version(headers: tuple[tuple[str, str], ...]) -> None:
    """A range of the same version, which has no checksums, takes nothing back; another version has its own."""
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        known = head(rig, headers=headers)
        rig.heads.store(NAME, replace(known, facts=replace(known.facts, checksums_known=True)), since)
        same = rig.heads.with_known_facts(NAME, head(rig).facts)
        assert (same.checksums_known, same.headers) == (True, headers)
        other = rig.heads.with_known_facts(NAME, head(rig, '"2"').facts)
        assert (other.checksums_known, other.headers) == (False, ())
        rig.heads.store(name := ObjectName(NAME.bucket, "other"), known, since)
        assert not rig.heads.with_known_facts(name, head(rig).facts).checksums_known
        newer = ("x-amz-checksum-sha1", "x")
        fresh = replace(head(rig).facts, checksums_known=True, headers=(newer,))
        assert rig.heads.with_known_facts(NAME, fresh).headers == (newer,), "the origin's own word is the last"


async def test_an_earlier_answer_does_not_replace_a_later_one() -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        rig.heads.store(NAME, later := head(rig), since)
        rig.heads.store(NAME, later.with_validation(rig.now - 1), since)
        assert rig.heads.current(NAME) == later
        rig.heads.fence(NAME)
        rig.now += 1
        rig.heads.store(NAME, later.with_validation(rig.now), since)
        assert rig.heads.current(NAME) == later, "it was requested before the fence"


async def test_of_two_versions_in_overlapping_answers_none_is_stored() -> None:
    async with fetch_rig() as rig:
        since, _ = rig.heads.now()
        for _ in range(2):
            rig.heads.requests.enter(NAME)
        rig.heads.store(NAME, one := head(rig), since)
        await rig.tiers.forget(NAME)
        rig.heads.store(NAME, other := head(rig, '"2"'), since)
        assert rig.heads.current(NAME) is None
        assert all(rig.heads.is_overtaken(NAME, shown, shown) for shown in (one, other))
        for _ in range(2):
            rig.heads.requests.leave(NAME)


async def test_a_rule_and_a_write_in_doubt_have_each_read_checked() -> None:
    async with fetch_rig() as rig:
        always = replace(DECISION, freshness=AlwaysRevalidate())
        assert rig.heads.is_always_checked(NAME, always)
        rig.in_doubt_writes.mark_object(NAME, rig.now + 10)
        assert rig.heads.is_always_checked(NAME, DECISION)
        rig.now += 10
        assert not rig.heads.is_always_checked(NAME, DECISION)


async def test_a_peer_hint_is_never_fresh_and_replaces_nothing() -> None:
    async with fetch_rig() as rig:
        rig.heads.keep_hint(NAME, head(rig))
        known = rig.heads.current(NAME)
        assert known is not None
        assert not rig.heads.is_fresh(NAME, known, DECISION, no_cache=False)
        rig.heads.keep_hint(NAME, head(rig, '"2"'))
        assert rig.heads.current(NAME) == known
