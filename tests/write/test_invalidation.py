"""Invalidation: the fence is raised before the tiers forget."""

from collections.abc import Callable
from typing import Any

import pytest

from forebay.core.fences import Fences, InDoubtWrites, Tick
from forebay.core.names import Generation, ObjectName
from forebay.write.invalidation import IN_DOUBT_SECONDS, Invalidator, WholeBucket

FIRST, SECOND = ObjectName("bucket", "one"), ObjectName("bucket", "two")
OTHER = ObjectName("other", "one")


class Recorder:
    """In place of the resolver and the tiers: records calls, and whether the fence was up."""

    def __init__(self, fences: Fences) -> None:
        self.fences, self.began = fences, fences.now()
        self.done: list[tuple[object, ...]] = []
        self.on_call: Callable[[], object] = lambda: None
        """Called while another worker has yet to raise its fence."""

    def fence(self, name: ObjectName) -> None:
        self.done.append(("fence", name, self.fences.allows(name, self.began)))

    def fence_bucket(self, bucket: str) -> None:
        self.done.append(("fence", bucket, self.fences.allows(ObjectName(bucket, "any"), self.began)))

    async def forget(self, name: ObjectName, keep: Generation | None) -> None:
        self.done.append(("forget", name, keep))

    async def forget_bucket(self, bucket: str) -> None:
        self.done.append(("forget", bucket))


class Others:
    """In place of the other workers: records calls, and answers as the scripted process."""

    def __init__(self, recorder: Recorder, *processes: str | None) -> None:
        self.others = {1: self}
        self._recorder, self._processes = recorder, iter(processes)

    async def call_until_acked(self, document: dict[str, Any], *, slow: bool = False) -> dict[int, str | None]:
        assert slow == (document["kind"] == "forget"), "a disk may be slow, memory may not"
        affected = document["names"] if "names" in document else document["bucket"]
        self._recorder.done.append((document["kind"], affected, document.get("doubt")))
        self._recorder.on_call()
        return {1: next(self._processes)}


class Memory:
    """In place of the memory tier."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def forget(self, name: ObjectName, keep: Generation | None) -> None:
        self._recorder.done.append(("drop", name, keep))

    def purge(self, bucket: str, prefix: str) -> None:
        self._recorder.done.append(("drop", bucket, prefix))


def invalidator() -> tuple[Invalidator, Recorder, InDoubtWrites]:
    fences, doubts = Fences(), InDoubtWrites()
    recorder = Recorder(fences)
    double: Any = recorder
    return Invalidator(fences, doubts, (double,), double, lambda: 1000.0), recorder, doubts


async def test_all_fences_are_raised_before_the_tiers_forget() -> None:
    subject, recorder, _ = invalidator()
    keep = Generation(b"12345678")
    await subject.invalidate([FIRST, SECOND], keep)
    assert recorder.done == [
        ("fence", FIRST, False),
        ("fence", SECOND, False),
        ("forget", FIRST, keep),
        ("forget", SECOND, keep),
    ]
    assert recorder.fences.allows(OTHER, recorder.began)


async def test_a_whole_bucket_is_fenced_and_forgotten() -> None:
    subject, recorder, _ = invalidator()
    await subject.invalidate(WholeBucket("bucket"))
    assert recorder.done == [("fence", "bucket", False), ("forget", "bucket")]
    assert recorder.fences.allows(OTHER, recorder.began)


def test_affected_keys_stay_in_doubt_for_a_while() -> None:
    subject, _, doubts = invalidator()
    subject.mark_in_doubt([FIRST])
    assert doubts.covers(FIRST, 1000.0 + IN_DOUBT_SECONDS - 1)
    assert not doubts.covers(SECOND, 1000.0)
    subject.mark_in_doubt(WholeBucket("other"))
    assert doubts.covers(OTHER, 1000.0)


def among_others(*processes: str | None, shared: bool = True) -> tuple[Invalidator, Recorder]:
    fences, doubts = Fences(), InDoubtWrites()
    recorder = Recorder(fences)
    double: Any = recorder
    double.memory = Memory(recorder)
    others: Any = Others(recorder, *processes)
    return Invalidator(fences, doubts, (double,), double, lambda: 1000.0, others, shared=shared), recorder


NAMES = [["bucket", "one"]]
FENCED = ("fence", FIRST, False), ("drop", FIRST, None), ("fence", NAMES, None)
FORGOTTEN = ("forget", FIRST, None), ("forget", NAMES, None)


async def test_others_are_fenced_before_and_after_forgetting() -> None:
    """One of them may have read the old head from the shared tier meanwhile."""
    subject, recorder = among_others(*"aaaa")
    await subject.invalidate([FIRST])
    assert recorder.done == [*FENCED, *FORGOTTEN, *FENCED, *FENCED]


async def test_a_bucket_is_dropped_here_before_others_are_fenced() -> None:
    subject, recorder = among_others("p", "p", shared=False)
    await subject.invalidate(WholeBucket("bucket"))
    fenced = ("fence", "bucket", False), ("drop", "bucket", ""), ("fence", "bucket", None)
    assert recorder.done == [*fenced, *fenced]


async def test_a_replaced_version_is_forgotten_like_one_written_to() -> None:
    subject, recorder = among_others(*"aaaa")
    tick = await subject.forget_replaced(FIRST, None, recorder.began)
    assert recorder.done == [*FENCED, *FORGOTTEN, *FENCED, *FENCED]
    assert tick is not None
    assert recorder.fences.allows(FIRST, tick)
    subject, recorder = among_others(*"aaaa")
    recorder.fences.raise_object(FIRST)
    assert await subject.forget_replaced(FIRST, None, recorder.began) is None, "a write came first"


async def test_a_worker_that_starts_or_ends_repeats_all() -> None:
    for processes in ("abbb", "aabb", "aaab", (None, None, "a", "a"), ("a", "a", None, None)):
        last = processes[-1]
        subject, recorder = among_others(*processes, last, last, last)
        await subject.invalidate([FIRST])
        once = [*FORGOTTEN, *FENCED, *FENCED]
        assert recorder.done == [*FENCED, *once, *once]


async def test_without_a_shared_tier_all_are_fenced_twice() -> None:
    subject, recorder = among_others("a", "a", shared=False)
    subject.mark_in_doubt([FIRST])
    await subject.invalidate([FIRST])
    in_doubt = [*FENCED[:2], ("fence", NAMES, 1000.0 + IN_DOUBT_SECONDS)]
    assert recorder.done == [*in_doubt, *in_doubt]


@pytest.mark.parametrize("shared", [False, True])
async def test_what_an_owner_told_before_its_fence_does_not_stay(shared: bool) -> None:
    """Its fence is raised later than that of the worker that writes, which asks it in between."""
    subject, recorder = among_others(*"aaaa", shared=shared)
    told: list[Tick] = []
    recorder.on_call = lambda: told.append(recorder.fences.now())
    await subject.invalidate([FIRST])
    *before, _ = told
    assert before
    assert not any(recorder.fences.allows(FIRST, tick) for tick in before), "the last calls find the owners fenced"


async def test_a_write_without_affected_keys_calls_nobody() -> None:
    subject, recorder = among_others()
    await subject.invalidate(())
    assert recorder.done == []
