"""Fences and doubts: nothing learnt before a write is kept, however little is remembered."""

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.fences import Fences, InDoubtWrites
from forebay.core.names import ObjectName

A, B, OTHER = ObjectName("bucket", "a"), ObjectName("bucket", "b"), ObjectName("other", "a")
NOW = 1_800_000_000.0


def test_facts_from_before_a_fence_are_refused() -> None:
    fences = Fences()
    before = fences.now()
    assert fences.allows(A, before)
    fences.raise_object(A)
    assert not fences.allows(A, before)
    assert fences.allows(A, fences.now())
    assert fences.allows(B, before)


def test_a_bucket_fences_all_its_objects() -> None:
    fences = Fences()
    before = fences.now()
    fences.raise_bucket("bucket")
    assert not fences.allows(A, before)
    assert not fences.allows(B, before)
    assert fences.allows(OTHER, before)


def test_a_second_write_fences_what_was_asked_between_the_two() -> None:
    fences = Fences()
    fences.raise_object(A)
    between = fences.now()
    fences.raise_object(A)
    assert not fences.allows(A, between)


def test_the_successor_of_a_replaced_version_passes_its_fence() -> None:
    fences = Fences()
    before = fences.now()
    first = fences.supersede(A, before)
    assert not fences.allows(A, before)
    assert first is not None
    assert fences.allows(A, first)
    second = fences.supersede(A, first)
    assert second is not None
    assert not fences.allows(A, first)
    fences.raise_object(A)
    assert fences.supersede(A, second) is None, "a write came in between"
    assert fences.supersede(A, None) is None
    assert fences.allows(B, before)


def test_what_was_written_since_is_told_as_long_as_it_is_known() -> None:
    fences = Fences(remembered=2)
    fences.raise_object(B)
    since = fences.now()
    assert fences.raised_since(since) == frozenset()
    fences.raise_object(A)
    fences.raise_bucket("other")
    assert fences.raised_since(since) == frozenset[ObjectName | str]({A, "other"})
    fences.raise_object(A)
    assert fences.raised_since(since) == frozenset[ObjectName | str]({A, "other"})
    fences.raise_object(OTHER)
    assert fences.raised_since(since) is None


def test_a_fence_that_is_forgotten_refuses_everything_of_before() -> None:
    fences = Fences(remembered=2)
    start = fences.now()
    fences.raise_object(A)
    after_a = fences.now()
    fences.raise_object(B)
    fences.raise_object(OTHER)  # A is forgotten
    assert not fences.allows(A, start)
    assert not fences.allows(ObjectName("bucket", "never written"), start)
    assert fences.allows(A, after_a)


def test_raising_again_keeps_a_fence_from_being_forgotten() -> None:
    fences = Fences(remembered=2)
    fences.raise_object(A)
    fences.raise_object(B)
    before = fences.now()
    fences.raise_object(A)
    fences.raise_object(OTHER)  # B is forgotten, not A
    assert not fences.allows(A, before)
    assert fences.allows(B, before)


NAMES = (A, B, OTHER, ObjectName("other", "c"))


@given(
    st.integers(1, 4),
    st.lists(st.one_of(st.sampled_from(NAMES), st.sampled_from(["bucket", "other"]), st.none()), max_size=40),
)
def test_memory_is_bounded_and_nothing_of_before_a_write_is_allowed(
    remembered: int, steps: list[ObjectName | str | None]
) -> None:
    """None stands for somebody who asks the origin at that moment."""
    fences = Fences(remembered)
    asked = []
    for at, step in enumerate(steps):
        match step:
            case None:
                asked.append((at, fences.now()))
            case ObjectName():
                fences.raise_object(step)
            case bucket:
                fences.raise_bucket(bucket)
    for at, tick in asked:
        for name in NAMES:
            if any(step in (name, name.bucket) for step in steps[at:]):
                assert not fences.allows(name, tick)
    assert all(fences.allows(name, fences.now()) for name in NAMES)
    assert int(repr(fences).split("raised=")[1].split()[0]) <= remembered


def test_a_doubt_holds_until_its_time() -> None:
    doubts = InDoubtWrites()
    assert not doubts.covers(A, NOW)
    doubts.mark_object(A, NOW + 10)
    assert doubts.covers(A, NOW + 9)
    assert not doubts.covers(B, NOW + 9)
    assert not doubts.covers(A, NOW + 10)


def test_a_doubt_about_a_bucket_is_one_about_each_of_its_objects() -> None:
    doubts = InDoubtWrites()
    doubts.mark_bucket("bucket", NOW + 10)
    assert doubts.covers(A, NOW)
    assert not doubts.covers(OTHER, NOW)


def test_a_shorter_doubt_does_not_end_a_longer_one() -> None:
    doubts = InDoubtWrites()
    doubts.mark_object(A, NOW + 100)
    doubts.mark_object(A, NOW + 10)
    assert doubts.covers(A, NOW + 50)


def test_more_doubts_than_are_remembered_are_a_doubt_about_everything() -> None:
    doubts = InDoubtWrites(remembered=2)
    for number in range(3):
        doubts.mark_object(ObjectName("bucket", str(number)), NOW + 10)
    assert all(doubts.covers(ObjectName("bucket", str(number)), NOW + 9) for number in range(3))
    assert doubts.covers(OTHER, NOW + 9)
    assert not doubts.covers(OTHER, NOW + 10)


def test_a_starting_worker_takes_over_what_is_in_doubt_still() -> None:
    """One entry is left of a table that was full: it is about everything."""
    doubts, full = InDoubtWrites(), InDoubtWrites(remembered=2)
    doubts.mark_object(A, NOW + 10)
    doubts.mark_bucket("other", NOW + 20)
    for number in range(3):
        full.mark_object(ObjectName("bucket", str(number)), NOW + 10 + number)
    assert doubts.snapshot(NOW + 15) == [("other", NOW + 20)]
    assert full.snapshot(NOW) == [(None, NOW + 12), (ObjectName("bucket", "2"), NOW + 12)]
    for source, name, until in ((doubts, A, NOW + 10), (doubts, OTHER, NOW + 20), (full, OTHER, NOW + 12)):
        started = InDoubtWrites()
        for scope, end in source.snapshot(NOW):
            started.merge(scope, end)
        assert (started.marked, started.until(name)) == (True, until)
