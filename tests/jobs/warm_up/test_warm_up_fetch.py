"""The fetch of a job in a node of two workers: each warms what it owns, and what one can't do is tried again."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from forebay.core.errors import OriginUnreachable, PeerNotListening, PeerUnavailable
from forebay.core.names import ObjectName
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.job_progress import CompletedEntry
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.state.warm_up_order import WarmUpOrder
from forebay.jobs.warm_up.object_warmer import ObjectWarmer
from forebay.jobs.warm_up.owner_warm_up import WarmUpProgress
from forebay.jobs.warm_up.warm_up_fetch import BATCH_BYTES, BATCH_ENTRIES, RESTART_PAUSE, WarmUpFetch
from forebay.origin.turns.request_turns import RequestTurns
from forebay.peers.owners import Peers
from forebay.policy.rules import Rules
from harness.fake import actions
from harness.fetch_rig import BLOCK, DECISION, FetchRig, fetch_rig
from harness.warming_peer import WarmingPeer

BUCKET = "bucket"


class Job:
    """A job of worker 0, whose other worker is a warmer over the same rig."""

    def __init__(self, rig: FetchRig, inventory: Inventory, **bounds: Any) -> None:
        self.turns = RequestTurns(64, "reads", rig.timers).background
        self.rig = rig
        self.peer = WarmingPeer(self.warmer(Peers()))
        self.inventory = inventory
        order = WarmUpOrder(listed_keys=len(inventory), **bounds)
        self.job = WarmUpJob("job", order, 0.0, listed=len(inventory), bytes_listed=inventory.known_bytes)
        self.job.end_listing(1 << 30)
        self.completed: dict[int, CompletedEntry] = {}

    def warmer(self, peers: Peers) -> ObjectWarmer:
        source = self.rig.block_source(deadline=5.0)
        return ObjectWarmer(
            self.rig.resolver, self.rig.openings, source, lambda _: self.turns, lambda: Rules([], DECISION), peers
        )

    def complete(self, number: int, entry: CompletedEntry) -> bool:
        assert number not in self.completed
        self.completed[number] = entry
        return False

    async def save(self) -> None:
        raise AssertionError("saved")

    async def run(self) -> None:
        warmer = self.warmer(self.peer.peers)
        await WarmUpFetch(
            self.job, self.inventory, warmer, self.rig.timers, lambda _: True, self.complete, self.save
        ).run()

    @property
    def batches(self) -> list[int]:
        """The pieces of each call."""
        return [len(call["pieces"]) for call in self.peer.calls]


def stored(rig: FetchRig, count: int, size: int, *, is_size_known: bool = False) -> Inventory:
    inventory = Inventory()
    for number in range(count):
        rig.origin.store.put_synthetic(BUCKET, f"key-{number}", size)
        inventory.add(InventoryEntry(BUCKET, f"key-{number}", size if is_size_known else None))
    return inventory


async def test_objects_of_another_worker_are_warmed_many_in_a_call() -> None:
    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 200, 5), concurrency=1)
        await job.run()
        assert sorted(job.completed.items()) == [(number, CompletedEntry(5)) for number in range(200)]
        assert (job.job.bytes_done, job.job.bytes_fetched, job.job.bytes_listed) == (1000, 1000, 1000)
        assert rig.origin.log.count("GET", "GetObject") == 200
        owned = sum(job.batches)
        assert 60 <= owned <= 140, "about half"
        assert len(job.batches) < owned / 4
        assert max(job.batches) <= BATCH_ENTRIES


async def test_batches_get_smaller_towards_the_end() -> None:
    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 64, 5), concurrency=8)
        await job.run()
        assert len(job.completed) == 64
        assert job.batches[-1] <= 2
        assert max(job.batches) <= 4


async def test_large_objects_are_not_batched() -> None:
    async with fetch_rig(memory=64 << 20) as rig:
        inventory = stored(rig, 1, BATCH_BYTES + 5, is_size_known=True)
        owned = Inventory()
        [[entry]] = inventory.pages()
        job = Job(rig, owned, concurrency=1)
        key = job.peer.key(0)
        rig.origin.store.put_synthetic(BUCKET, key, BATCH_BYTES + 5)
        for _ in range(2):
            owned.add(entry._replace(key=key))
        await job.run()
        assert [entry.size for entry in job.completed.values()] == [BATCH_BYTES + 5] * 2
        spans = [[tuple(piece[2:]) for piece in call["pieces"]] for call in job.peer.calls]
        assert spans[0] == [(0, BATCH_BYTES)]
        assert spans[1][0][0] == BATCH_BYTES
        assert job.job.bytes_fetched == BATCH_BYTES + 5
        assert rig.tiers.memory.objects.cached_bytes(ObjectName(BUCKET, key)) == BATCH_BYTES + 5


async def test_what_an_owner_can_not_do_is_tried_again() -> None:
    class Failing:
        """Fails once at the third object, in its middle."""

        def __init__(self, warmer: ObjectWarmer) -> None:
            self.warmer = warmer
            self.left = 3

        async def warm_pieces(
            self,
            pieces: Sequence[tuple[ObjectName, int, int | None]],
            group: str,
            report: Callable[[int, WarmUpProgress], None],
            count_ended: Callable[[int], None],
        ) -> None:
            for number, (name, start, stop) in enumerate(pieces):
                self.left -= 1
                end = BLOCK if self.left == 0 else stop
                await self.warmer.warm_here(name, group, partial(report, number), start, end)
                if self.left == 0:
                    raise OriginUnreachable("away")
                count_ended(number + 1)

    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 64, 3 * BLOCK), concurrency=1)
        job.peer.warmer = Failing(job.warmer(Peers()))
        await job.run()
        assert sorted(job.completed.items()) == [(number, CompletedEntry(3 * BLOCK)) for number in range(64)]
        assert job.job.bytes_done == 64 * 3 * BLOCK
        assert rig.timers.time() == 0.0, "it was tried again at once"


async def test_without_the_owner_objects_are_warmed_here() -> None:
    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 64, 5), concurrency=1)
        job.peer.absence = PeerNotListening("nobody listens")
        await job.run()
        assert sorted(job.completed.items()) == [(number, CompletedEntry(5)) for number in range(64)]


async def test_the_successor_of_an_owner_that_ended_is_waited_for() -> None:
    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 64, 5), concurrency=1)
        job.peer.failure = PeerUnavailable("the connection ended")
        with rig.timers.flowing(0.5, progress=lambda: len(job.completed)):
            await job.run()
        assert rig.timers.time() >= RESTART_PAUSE
        assert sorted(job.completed.items()) == [(number, CompletedEntry(5)) for number in range(64)]
        assert sum(job.batches) > len(job.batches), "later batches went to the owner again"


async def test_objects_that_can_not_be_had_fail_alone() -> None:
    async with fetch_rig() as rig:
        inventory = stored(rig, 64, 5)
        for number in range(0, 64, 7):
            rig.origin.store.delete(BUCKET, f"key-{number}")
        job = Job(rig, inventory, concurrency=1)
        await job.run()
        failed = {number for number, entry in job.completed.items() if entry.failure is not None}
        assert failed == set(range(0, 64, 7))
        assert len(job.completed) == 64


async def test_what_the_origin_refused_an_owner_is_tried_again() -> None:
    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 64, 5), concurrency=1)
        rig.origin.faults.add(actions.SLOW_DOWN, times=12)
        with rig.timers.flowing(0.5, progress=lambda: len(job.completed)):
            await job.run()
        assert sorted(job.completed.items()) == [(number, CompletedEntry(5)) for number in range(64)]


async def test_a_job_under_a_rate_is_not_batched() -> None:
    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 8, 5), concurrency=1, rate=1 << 30)
        await job.run()
        assert len(job.completed) == 8
        assert set(job.batches) <= {1}


async def test_until_is_kept_where_sizes_are_not_known() -> None:
    async with fetch_rig() as rig:
        job = Job(rig, stored(rig, 64, 5), concurrency=1, until_size=50)
        await job.run()
        assert len(job.completed) in {10, 11}
        assert job.job.left_out == 64 - len(job.completed)
