"""Invalidation: the fence comes before the tiers forget, so that nothing slips in between."""

from typing import Any

from forebay.flights.fences import Doubts, Fences
from forebay.story.invalidating import DOUBT_SECONDS, Invalidator, WholeBucket
from forebay.words.names import Generation, ObjectName

ONE, TWO = ObjectName("bucket", "one"), ObjectName("bucket", "two")
OTHER = ObjectName("other", "one")


class Recorder:
    """In the place of the resolver and the tiers: notes, with whether the fence was up."""

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


def invalidator() -> tuple[Invalidator, Recorder, Doubts]:
    fences, doubts = Fences(), Doubts()
    recorder = Recorder(fences)
    double: Any = recorder
    return Invalidator(fences, doubts, double, double, lambda: 1000.0), recorder, doubts


async def test_all_fences_are_up_before_anything_is_forgotten() -> None:
    subject, recorder, _ = invalidator()
    keep = Generation(b"12345678")
    await subject.invalidate([ONE, TWO], keep)
    assert recorder.done == [("fence", ONE, False), ("fence", TWO, False), ("forget", ONE, keep), ("forget", TWO, keep)]
    assert recorder.fences.allows(OTHER, recorder.began)


async def test_a_whole_bucket_is_fenced_and_forgotten() -> None:
    subject, recorder, _ = invalidator()
    await subject.invalidate(WholeBucket("bucket"))
    assert recorder.done == [("fence", "bucket", False), ("forget", "bucket")]
    assert recorder.fences.allows(OTHER, recorder.began)


def test_a_doubt_lasts_and_is_of_what_was_touched() -> None:
    subject, _, doubts = invalidator()
    subject.doubt([ONE])
    assert doubts.holds(ONE, 1000.0 + DOUBT_SECONDS - 1)
    assert not doubts.holds(TWO, 1000.0)
    subject.doubt(WholeBucket("other"))
    assert doubts.holds(OTHER, 1000.0)
