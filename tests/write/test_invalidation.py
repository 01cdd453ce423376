"""Invalidation: the fence is raised before the tiers forget."""

from typing import Any

from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.names import Generation, ObjectName
from forebay.write.invalidation import IN_DOUBT_SECONDS, Invalidator, WholeBucket

FIRST, SECOND = ObjectName("bucket", "one"), ObjectName("bucket", "two")
OTHER = ObjectName("other", "one")


class Recorder:
    """In place of the resolver and the tiers: records calls, and whether the fence was up."""

    def __init__(self, fences: Fences) -> None:
        self.fences, self.began = fences, fences.now()
        self.done: list[tuple[object, ...]] = []

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
        self._recorder.done.append((document["kind"], document["names"], document.get("doubt")))
        return {1: next(self._processes)}


class Memory:
    """In place of the memory tier."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def forget(self, name: ObjectName, keep: Generation | None) -> None:
        self._recorder.done.append(("drop", name, keep))


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
OURS = ("fence", FIRST, False), ("drop", FIRST, None)
STEPS = (
    ("fence", NAMES, None),
    ("forget", NAMES, None),
    ("forget", FIRST, None),
    *OURS,
    ("fence", NAMES, None),
)


async def test_others_are_fenced_before_and_after_forgetting() -> None:
    """One of them may have read the old head from the shared tier meanwhile."""
    subject, recorder = among_others("a", "a", "a")
    await subject.invalidate([FIRST])
    assert recorder.done == [*OURS, *STEPS]


async def test_a_replaced_version_is_forgotten_like_one_written_to() -> None:
    subject, recorder = among_others("a", "a", "a")
    tick = await subject.forget_replaced(FIRST, None, recorder.began)
    assert recorder.done == [*OURS, *STEPS]
    assert tick is not None
    assert recorder.fences.allows(FIRST, tick)
    subject, recorder = among_others("a", "a", "a")
    recorder.fences.raise_object(FIRST)
    assert await subject.forget_replaced(FIRST, None, recorder.began) is None, "a write came first"


async def test_a_worker_that_starts_or_ends_repeats_all() -> None:
    for processes in (("a", "b", "b"), ("a", "a", "b"), (None, None, "a"), ("a", "a", None)):
        last = processes[-1]
        subject, recorder = among_others(*processes, last, last, last)
        await subject.invalidate([FIRST])
        assert recorder.done == [*OURS, *STEPS, *STEPS]


async def test_without_a_shared_tier_one_fence_is_enough() -> None:
    subject, recorder = among_others("a", shared=False)
    subject.mark_in_doubt([FIRST])
    await subject.invalidate([FIRST])
    assert recorder.done == [*OURS, ("fence", NAMES, 1000.0 + IN_DOUBT_SECONDS)]


async def test_a_write_without_affected_keys_calls_nobody() -> None:
    subject, recorder = among_others()
    await subject.invalidate(())
    assert recorder.done == []
