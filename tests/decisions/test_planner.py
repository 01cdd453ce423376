"""Plans and windows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.decisions.planner import FIRST_RUNS, READY_TO_SHRINK, FetchBounds, Place, Plan, Serve, Window, plan
from forebay.words.ranges import Span, blocks_touching

BLOCK = 64
BOUNDS = FetchBounds(max_run=4 * BLOCK, gap=0, parallel=2)


def test_a_span_within_blocks() -> None:
    made = plan(Span(70, 200), 1000, BLOCK, [Place.MEMORY, Place.MISSING, Place.SSD], BOUNDS)
    assert made.serves == (
        Serve(1, Place.MEMORY, Span(70, 128)),
        Serve(2, Place.MISSING, Span(128, 192)),
        Serve(3, Place.SSD, Span(192, 200)),
    )
    (run,) = made.runs
    assert (run.blocks, run.missing, run.span) == (range(2, 3), (2,), Span(128, 192))
    assert made.stop == 4


def test_the_first_run_begins_with_the_block_of_the_first_wanted_byte() -> None:
    made = plan(Span(3 * BLOCK + 5, 20 * BLOCK), 20 * BLOCK, BLOCK, [Place.MISSING] * 17, BOUNDS)
    assert made.runs[0].span.start == 3 * BLOCK
    assert made.runs[0].span.length <= made.runs[1].span.length


def test_no_more_than_parallel_runs() -> None:
    made = plan(Span(0, 16 * BLOCK), 16 * BLOCK, BLOCK, [Place.MISSING] * 16, BOUNDS)
    assert [run.blocks for run in made.runs] == [range(4), range(4, 8)]
    assert made.stop == 8
    assert made.serves[-1].index == 7


def test_an_empty_span_needs_nothing() -> None:
    assert plan(Span(0, 0), 0, BLOCK, [], BOUNDS) == Plan((), (), 0)


@pytest.mark.parametrize("span", [Span(0, 1001), Span(-1, 10), Span(20, 10)])
def test_a_span_that_was_not_clipped_is_a_mistake(span: Span) -> None:
    places = [Place.MISSING] * len(blocks_touching(span, BLOCK))
    with pytest.raises(ValueError, match="is not within"):
        plan(span, 1000, BLOCK, places, BOUNDS)


def test_places_must_fit_the_span() -> None:
    with pytest.raises(ValueError, match="1 places for 2 blocks"):
        plan(Span(0, 100), 1000, BLOCK, [Place.MISSING], BOUNDS)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Span, int, list[Place], FetchBounds]:
    size = draw(st.integers(1, 40 * BLOCK))
    start = draw(st.integers(0, size - 1))
    span = Span(start, draw(st.integers(start + 1, size)))
    count = len(blocks_touching(span, BLOCK))
    places = draw(st.lists(st.sampled_from(list(Place)), min_size=count, max_size=count))
    bounds = FetchBounds(draw(st.integers(1, 12 * BLOCK)), draw(st.integers(0, 3 * BLOCK)), draw(st.integers(1, 5)))
    return span, size, places, bounds


@given(requests())
def test_plan_after_plan_serves_every_byte_once_and_fetches_what_is_missing_once(
    request: tuple[Span, int, list[Place], FetchBounds],
) -> None:
    span, size, places, bounds = request
    first = blocks_touching(span, BLOCK).start
    missing = [first + i for i, place in enumerate(places) if place is Place.MISSING]
    at = span.start
    fetched: list[int] = []
    while at < span.stop:
        rest = Span(at, span.stop)
        made = plan(rest, size, BLOCK, places[blocks_touching(rest, BLOCK).start - first :], bounds)
        assert made.serves, "a plan that does not move on would never end"
        for serve in made.serves:
            assert serve.span.start == at
            assert serve.span.length > 0
            assert serve.place is places[serve.index - first]
            at = serve.span.stop
        assert len(made.runs) <= bounds.parallel
        for run in made.runs:
            assert 0 <= run.span.start < run.span.stop <= size
            assert run.span.length <= max(bounds.max_run, BLOCK)
            assert run.blocks.stop <= made.stop
            fetched += run.missing
        assert at == min(made.stop * BLOCK, span.stop)
    assert at == span.stop
    assert fetched == missing


def test_the_window_doubles_with_each_wait_up_to_parallel() -> None:
    window = Window(parallel=10)
    seen = [window.runs]
    for _ in range(4):
        window.reader_waited()
        seen.append(window.runs)
    assert seen == [FIRST_RUNS, 4, 8, 10, 10]
    assert repr(window) == "Window(10 of 10)"


def test_a_slow_reader_never_makes_it_grow() -> None:
    window = Window(parallel=8)
    for _ in range(1000):
        window.reader_ready()
        assert window.runs == FIRST_RUNS


def test_it_shrinks_when_the_reader_has_fallen_behind_for_long() -> None:
    window = Window(parallel=8)
    window.reader_waited()
    window.reader_waited()
    for _ in range(READY_TO_SHRINK - 1):
        window.reader_ready()
    assert window.runs == 8
    window.reader_ready()
    assert window.runs == 4


def test_a_wait_starts_the_count_anew() -> None:
    window = Window(parallel=2)
    window = Window(parallel=4)
    window.reader_waited()
    for _ in range(READY_TO_SHRINK - 1):
        window.reader_ready()
    window.reader_waited()
    window.reader_ready()
    assert window.runs == 4


@given(st.integers(1, 64), st.lists(st.booleans(), max_size=300))
def test_the_window_stays_within_bounds(parallel: int, waits: list[bool]) -> None:
    window = Window(parallel)
    for waited in waits:
        before = window.runs
        window.reader_waited() if waited else window.reader_ready()
        assert min(FIRST_RUNS, parallel) <= window.runs <= parallel
        assert waited or window.runs <= before


def test_at_least_one_run() -> None:
    assert Window(1).runs == 1
    with pytest.raises(ValueError):
        Window(0)
