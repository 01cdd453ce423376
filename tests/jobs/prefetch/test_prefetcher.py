"""The prefetcher: fetches into its own budget beside demand, and gives every block back."""

import asyncio
import selectors
import threading
from dataclasses import replace
from typing import Any

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.jobs.prefetch.prefetch_request import PrefetchOutcome, PrefetchRequest
from forebay.jobs.prefetch.prefetch_tickets import DROPPED, LINGER, SWEEP_SECONDS
from forebay.jobs.prefetch.prefetcher import PIECE, Prefetcher
from forebay.policy.rules import Rules
from harness.ahead_rig import AheadRig, ahead_rig
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fetch_rig import BLOCK, DECISION, NAME
from harness.inspection import run_loop_until


@pytest.fixture(params=[False, True], ids=["task", "direct"], autouse=True)
def is_direct(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Each test by fetches in a task, and by fetches without one where the case is plain."""
    monkeypatch.setattr(AheadRig, "is_direct", request.param)
    return bool(request.param)


async def test_a_fetched_object_is_a_hit_and_then_in_the_tiers() -> None:
    size = 2 * BLOCK + 5
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, size)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        assert outcome[:4] == ("fetched", size, size, size)
        memory = test.rig.tiers.memory
        assert (memory.occupancy().blocks, len(memory.ahead)) == (0, 3)
        before = test.origin_reads
        assert len(await test.read(Span(0, size))) == size
        assert test.origin_reads == before
        test.prefetcher.finish([outcome.ticket])
        assert (memory.occupancy().blocks, len(memory.ahead), memory.ahead.budget.in_use) == (3, 0, 0)
        assert test.counted == {"fetched": size, "used": size}


async def test_only_the_blocks_of_the_range_are_fetched() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, 10 * BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 3 * BLOCK + 7, 4 * BLOCK + 1, "plan"))
        assert outcome[:4] == ("fetched", 10 * BLOCK, 4 * BLOCK + 1, 2 * BLOCK)
        assert (outcome.fetched_blocks, outcome.fetched_bytes) == (2, 2 * BLOCK)
        assert test.counted == {"fetched": 2 * BLOCK}
        test.prefetcher.drop([outcome.ticket])


async def test_what_is_cached_already_is_not_claimed() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        first = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        await test.read(Span(0, BLOCK))
        test.prefetcher.finish([first.ticket])
        again = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        assert again == PrefetchOutcome("fetched", BLOCK, BLOCK)
        assert test.counted["fetched"] == BLOCK


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 1])
async def test_a_small_object_is_found_as_it_is_fetched(size: int) -> None:
    request = PrefetchRequest(NAME, 0, None, "plan")
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, size)
        first = await test.fetch(request)
        waiting = test.prefetcher.find_nowait(request)
        assert waiting is not None
        assert (waiting[:4], waiting.ticket > 0) == (("fetched", size, size, size), True)
        await test.read(Span(0, size))
        test.prefetcher.finish([first.ticket])
        assert test.prefetcher.tickets == 1, "the other reader's"
        test.prefetcher.finish([waiting.ticket])
        found = test.prefetcher.find_nowait(request)
        assert found == await test.fetch(request) == PrefetchOutcome("fetched", size, size)
        assert len(test.rig.tiers.memory.ahead) == 0
        test.rig.tiers.memory.forget(NAME)
        assert test.prefetcher.find_nowait(request) is None


async def test_what_is_all_here_is_found_without_a_turn() -> None:
    request = PrefetchRequest(NAME, 0, None, "plan")
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, 3 * BLOCK)
        assert test.prefetcher.find_nowait(request) is None
        part = await test.fetch(PrefetchRequest(NAME, 0, BLOCK, "plan"))
        assert test.prefetcher.find_nowait(request) is None
        waiting = test.prefetcher.find_nowait(PrefetchRequest(NAME, 5, BLOCK, "other"))
        assert waiting is not None
        assert waiting[:4] == ("fetched", 3 * BLOCK, BLOCK, BLOCK)
        await test.read(Span(0, 3 * BLOCK))
        test.prefetcher.finish([part.ticket])
        assert len(test.rig.tiers.memory.ahead) == 1, "the other plan's as well"
        test.prefetcher.finish([waiting.ticket])
        found = test.prefetcher.find_nowait(request)
        assert found == await test.fetch(request) == PrefetchOutcome("fetched", 3 * BLOCK, 3 * BLOCK)
        tail = PrefetchRequest(NAME, 2 * BLOCK, 9 * BLOCK, "plan")
        assert test.prefetcher.find_nowait(tail) == PrefetchOutcome("fetched", 3 * BLOCK, 3 * BLOCK)
        test.rig.tiers.memory.forget(NAME)
        assert test.prefetcher.find_nowait(request) is None


async def test_what_no_rule_accelerates_is_not_found() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        plain = Rules([], replace(DECISION, accelerate=False))
        turns = test.rig.reads.client.reads.background
        without = Prefetcher(
            test.rig.resolver,
            test.rig.block_source(),
            test.rig.openings,
            lambda _: turns,
            lambda: plain,
            test.rig.timers,
            test.rig.tasks.spawn,
        )
        assert without.find_nowait(PrefetchRequest(NAME, 0, None, "plan")) is None


async def test_a_dropped_block_was_useless_and_is_not_cached() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        test.prefetcher.drop([outcome.ticket, outcome.ticket, 99])
        assert test.counted == {"fetched": BLOCK, "useless": BLOCK}
        assert (len(test.rig.tiers.memory.ahead), test.rig.tiers.memory.occupancy().blocks) == (0, 0)


async def test_many_dropped_blocks_are_given_up_some_at_a_time() -> None:
    """Between two looks of the loop at its sockets, as their memory is returned to the kernel."""
    blocks = 10 * DROPPED
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, blocks * BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        ahead, left = test.rig.tiers.memory.ahead, list[int]()
        test.prefetcher.drop([outcome.ticket])
        while len(ahead):
            left.append(len(ahead))
            await asyncio.sleep(0)
        assert left == list(range(blocks - DROPPED, 0, -DROPPED))
        assert (ahead.budget.in_use, test.counted["useless"]) == (0, blocks * BLOCK)


@pytest.mark.parametrize("nth", [2 * DROPPED, DROPPED + 2])
async def test_a_failure_among_dropped_blocks_keeps_no_later_ones(nth: int) -> None:
    """It was in a later turn of the loop: there is nobody to hear of it but the loop."""
    blocks, failures = 4 * DROPPED, list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    async with ahead_rig(fail_at=nth * BLOCK) as test:
        test.rig.origin.store.put_synthetic(*NAME, (blocks + 1) * BLOCK)
        first = await test.fetch(PrefetchRequest(NAME, 0, blocks * BLOCK, "plan"))
        last = await test.fetch(PrefetchRequest(NAME, blocks * BLOCK, None, "plan"))
        test.prefetcher.drop([first.ticket])
        await asyncio.sleep(0)
        test.prefetcher.drop([last.ticket])
        await test.prefetcher.close()
        assert [type(failure["exception"]) for failure in failures] == [ArithmeticError]
        assert (len(test.rig.tiers.memory.ahead), test.counted["useless"]) == (0, (blocks + 1) * BLOCK)


async def test_blocks_that_linger_are_given_up_some_at_a_time() -> None:
    blocks = 3 * DROPPED
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, blocks * BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        test.prefetcher.finish([outcome.ticket])
        test.rig.timers.advance(LINGER + SWEEP_SECONDS)
        assert len(test.rig.tiers.memory.ahead) == blocks - DROPPED
        await test.prefetcher.close()
        assert len(test.rig.tiers.memory.ahead) == 0


async def test_two_readers_of_one_block_share_one_fetch() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        requests = [PrefetchRequest(NAME, start, start + 10, group) for start, group in ((0, "a"), (100, "b"))]
        outcomes = await asyncio.gather(*map(test.fetch, requests))
        assert [outcome.status for outcome in outcomes] == ["fetched", "fetched"]
        assert test.counted == {"fetched": BLOCK}
        test.prefetcher.drop([outcomes[0].ticket])
        assert len(test.rig.tiers.memory.ahead) == 1
        test.prefetcher.drop([outcomes[1].ticket])
        assert test.rig.tiers.memory.ahead.budget.in_use == 0


async def test_nothing_is_fetched_without_room() -> None:
    async with ahead_rig(ahead=2 * BLOCK) as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        first = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        other = PrefetchRequest(ObjectName(NAME.bucket, "other"), 0, None, "plan")
        assert (await test.fetch(other)).status == "full"
        assert test.origin_reads == 1
        test.prefetcher.drop([first.ticket])


async def test_nothing_is_fetched_into_no_room() -> None:
    async with ahead_rig(ahead=0) as test:
        assert (await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))).status == "full"
        assert test.origin_reads == 0


async def test_small_objects_have_room_where_a_block_has_none() -> None:
    async with ahead_rig(ahead=BLOCK) as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK // 2)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        assert (outcome.status, outcome.claimed) == ("fetched", BLOCK // 2)
        test.prefetcher.drop([outcome.ticket])


async def test_an_object_whose_blocks_never_have_room_is_refused() -> None:
    """Else it would be tried, and fetched, again and again."""
    async with ahead_rig(ahead=BLOCK, memory=0) as test:
        test.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        assert (await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))).status == "refused"
        assert test.rig.tiers.memory.ahead.budget.in_use == 0


async def test_as_much_of_an_object_as_fits_is_fetched() -> None:
    async with ahead_rig(ahead=3 * BLOCK) as test:
        test.rig.origin.store.put_synthetic(*NAME, 8 * BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        assert (outcome.status, outcome.stop, outcome.claimed) == ("fetched", 2 * BLOCK, 2 * BLOCK)
        following = await test.fetch(PrefetchRequest(NAME, outcome.stop, None, "plan"))
        assert following.status == "full"
        test.prefetcher.drop([outcome.ticket])


async def test_a_large_object_comes_in_pieces() -> None:
    size = PIECE + 3 * BLOCK
    async with ahead_rig(memory=0) as test:
        test.rig.origin.store.put_synthetic(*NAME, size)
        first = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        rest = await test.fetch(PrefetchRequest(NAME, first.stop, None, "plan"))
        assert (first.stop, rest.stop, first.claimed + rest.claimed) == (PIECE, size, size)
        test.prefetcher.drop([first.ticket, rest.ticket])


async def test_demand_for_buffers_comes_first() -> None:
    async with ahead_rig(buffers=8 * BLOCK) as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        assert test.rig.budget.try_acquire(5 * BLOCK)
        assert (await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))).status == "full"
        test.rig.budget.release(5 * BLOCK)


@pytest.mark.parametrize("accelerate", [True, False])
async def test_an_object_that_cannot_be_had_is_refused(accelerate: bool) -> None:
    async with ahead_rig(accelerate=accelerate) as test:
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        assert (outcome.status, outcome.problem) == (
            "refused",
            "the origin answered 404" if accelerate else "no rule accelerates it",
        )


@pytest.mark.parametrize("response_has_all", [False, True])
async def test_checksums_that_readers_will_want_are_there(response_has_all: bool) -> None:
    """By a HEAD, unless the response had them: then not even of the first objects, with nothing known of the origin."""
    async with ahead_rig() as test:
        if response_has_all:
            test.rig.origin.store.put(*NAME, bytes(BLOCK))
        else:
            test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan", checksums=True))
        await test.rig.tasks.wait_idle()
        head = test.rig.heads.current(NAME)
        assert head is not None
        assert head.facts.checksums_known
        assert test.rig.origin.log.count("HEAD") == (0 if response_has_all else 1)
        test.prefetcher.drop([outcome.ticket])


async def test_a_failing_origin_leaves_nothing_behind() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        test.rig.origin.faults.add(actions.CloseAfter(10), method="GET", key=NAME.key)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        assert outcome.status == "unavailable"
        assert test.rig.tiers.memory.ahead.budget.in_use == 0


async def test_a_head_that_no_tier_had_room_for_follows_its_block() -> None:
    async with ahead_rig(memory=0) as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        memory = test.rig.tiers.memory
        assert (memory.occupancy().heads, memory.ahead.budget.in_use > BLOCK) == (0, True)
        memory.resize(1 << 24)
        await test.read(Span(0, BLOCK))
        test.prefetcher.finish([outcome.ticket])
        assert (memory.occupancy().blocks, memory.occupancy().heads, memory.ahead.budget.in_use) == (1, 1, 0)
        assert len(await test.read(Span(0, BLOCK))) == BLOCK
        assert test.origin_reads == 1


async def test_a_block_that_its_reader_has_yet_to_use_lingers() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        test.prefetcher.finish([outcome.ticket])  # the head of its response has left
        ahead, timers = test.rig.tiers.memory.ahead, test.rig.timers
        timers.advance(SWEEP_SECONDS)
        assert len(ahead) == 2
        await test.read(Span(0, BLOCK))
        timers.advance(SWEEP_SECONDS)
        assert (len(ahead), test.counted["used"]) == (1, BLOCK)
        timers.advance(LINGER)
        assert (len(ahead), test.counted["useless"]) == (0, BLOCK)


async def test_a_late_block_goes_to_the_tiers_at_once() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        test.prefetcher.finish([outcome.ticket], late=True)
        assert (len(test.rig.tiers.memory.ahead), test.rig.tiers.memory.occupancy().blocks) == (0, 1)


async def test_one_release_that_fails_keeps_no_other_block() -> None:
    async with ahead_rig(fail_at=2 * BLOCK, fails="used") as test:
        test.rig.origin.store.put_synthetic(*NAME, 4 * BLOCK)
        outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
        await test.read(Span(0, 4 * BLOCK))
        with pytest.raises(ArithmeticError):
            test.prefetcher.finish([outcome.ticket])
        test.rig.timers.advance(SWEEP_SECONDS)
        assert (len(test.rig.tiers.memory.ahead), test.rig.tiers.memory.ahead.budget.in_use) == (0, 0)
        assert test.counted["used"] == 4 * BLOCK


async def test_everything_can_be_dropped_at_once() -> None:
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        first = await test.fetch(PrefetchRequest(NAME, 0, BLOCK, "plan"))
        await test.fetch(PrefetchRequest(NAME, BLOCK, None, "plan"))
        test.prefetcher.finish([first.ticket])
        test.prefetcher.drop_all()
        assert (test.prefetcher.tickets, test.rig.tiers.memory.ahead.budget.in_use) == (0, 0)


async def test_a_fetch_under_way_is_dropped_with_everything_else() -> None:
    """Whoever wanted it has ended: nobody would give its ticket back."""
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        gate = Gate()
        test.rig.origin.faults.add(actions.HoldHead(gate), key=NAME.key, times=1)
        fetching = TaskRegistry().spawn(test.fetch(PrefetchRequest(NAME, 0, None, "plan")), "fetch ahead")
        await gate.reached()
        test.prefetcher.drop_all()
        gate.open()
        assert (await fetching).status == "unavailable"
        assert (test.prefetcher.tickets, test.rig.tiers.memory.ahead.budget.in_use) == (0, 0)


async def test_drops_of_one_turn_are_released_in_several() -> None:
    """To return the memory of many blocks must not hold up the loop."""
    async with ahead_rig() as test:
        test.rig.origin.store.put_synthetic(*NAME, 4 * DROPPED * BLOCK)
        middle = 2 * DROPPED * BLOCK
        spans = [(0, middle), (middle, 2 * middle)]
        outcomes = [await test.fetch(PrefetchRequest(NAME, *span, "plan")) for span in spans]
        for outcome in outcomes:
            test.prefetcher.drop([outcome.ticket])
        assert test.counted["useless"] == DROPPED * BLOCK
        await run_loop_until(lambda: test.counted["useless"] == 2 * middle)


class RestSelector(selectors.SelectSelector):
    """Says when its loop has nothing to do."""

    def __init__(self) -> None:
        super().__init__()
        self.has_rested = threading.Event()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.has_rested.set()
        return super().select(timeout)


def test_the_loop_rests_once_all_is_dropped() -> None:
    selector = RestSelector()

    async def drop_and_rest() -> bool:
        async with ahead_rig() as test:
            test.rig.origin.store.put_synthetic(*NAME, (DROPPED + 1) * BLOCK)
            outcome = await test.fetch(PrefetchRequest(NAME, 0, None, "plan"))
            test.prefetcher.drop([outcome.ticket])
            await run_loop_until(lambda: len(test.rig.tiers.memory.ahead) == 0)
            selector.has_rested.clear()
            return await asyncio.to_thread(selector.has_rested.wait, 5.0)

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        assert runner.run(drop_and_rest())


async def test_blocks_that_linger_take_one_timer() -> None:
    """Until they are used; then none."""
    async with ahead_rig() as test:
        timers, ahead = test.rig.timers, test.rig.tiers.memory.ahead
        test.rig.origin.store.put_synthetic(*NAME, 2 * BLOCK)
        requests = [PrefetchRequest(NAME, start, start + BLOCK, "plan") for start in (0, BLOCK)]
        outcomes = [await test.fetch(request) for request in requests]
        before = timers.pending
        for outcome in outcomes:
            test.prefetcher.finish([outcome.ticket])
        assert timers.pending == before + 1
        await test.read(Span(0, 2 * BLOCK))
        timers.advance(LINGER)
        assert (len(ahead), timers.pending) == (0, 0)


async def test_a_block_that_lingered_is_given_up_once() -> None:
    """With all others, and not again when the claim is another reader's."""
    async with ahead_rig() as test:
        ahead = test.rig.tiers.memory.ahead
        test.rig.origin.store.put_synthetic(*NAME, BLOCK)
        request = PrefetchRequest(NAME, 0, None, "plan")
        test.prefetcher.finish([(await test.fetch(request)).ticket])
        test.prefetcher.drop_all()
        assert len(ahead) == 0
        assert (await test.fetch(request)).ticket
        test.rig.timers.advance(LINGER + SWEEP_SECONDS)
        assert len(ahead) == 1
        await test.prefetcher.close()
        assert (len(ahead), ahead.budget.in_use, test.prefetcher.tickets) == (0, 0, 0)


async def test_tickets_of_an_ended_process_end_no_others() -> None:
    """A plan gives the tickets of its entries back to the worker that gave them, which another process may be now."""
    async with ahead_rig() as ended, ahead_rig() as test:
        tickets = []
        for rig in (ended, test):
            rig.rig.origin.store.put_synthetic(*NAME, BLOCK)
            tickets.append((await rig.fetch(PrefetchRequest(NAME, 0, None, "plan"))).ticket)
        test.prefetcher.drop(tickets[:1])
        assert (test.prefetcher.tickets, len(test.rig.tiers.memory.ahead)) == (1, 1)
        test.prefetcher.drop(tickets)
        assert (test.prefetcher.tickets, len(test.rig.tiers.memory.ahead)) == (0, 0)
        ended.prefetcher.drop_all()
