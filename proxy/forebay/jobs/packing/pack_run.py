"""One pack job from its beginning to its end: the steps of each order, in terms of shards and indexes.

    pack      shard after shard (packed_shards) ──> prefix listed once more: what was deleted meanwhile is left out
              (deleted_originals) ──> index, references (present_pack)
    check     every member of the index against the bytes in its shard                                 (unpacking)
    delete    a new index without the members of a prefix
    unpack    members of a prefix are written as objects, where there is none; then as delete          (unpacking)

Packing a prefix again adds what is new or has changed, and keeps the rest.

What a job reads and writes at the origin takes background turns, and memory of a fixed size from the budget of buffers.
"""

from typing import Final, assert_never

from forebay.core.errors import ForebayError, MalformedPack, OriginError
from forebay.jobs.packing.deleted_originals import DeletedOriginals, PresentMembers
from forebay.jobs.packing.index_publisher import IndexSource, MemberSource, MergedMembers
from forebay.jobs.packing.multipart_writer import LEAST_PART, MAX_PARTS
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.packing.packed_shards import CompletedEntries, PackedShards
from forebay.jobs.packing.present_pack import PresentPack
from forebay.jobs.packing.unpacking import check_members, write_objects
from forebay.jobs.state.inventory import Inventory
from forebay.jobs.state.job_progress import WarmUpFailure
from forebay.jobs.state.job_store import JobRecord
from forebay.jobs.state.pack_order import PackOrder
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.warm_up.warm_up_run import WarmUpRun, WarmUpServices

MOST_MEMORY: Final = 32 << 20
LEAST_MEMORY: Final = 8 << 20
SHARE: Final = 8
"""One in so many bytes of the buffers is a job's at most."""
BUDGET_WAIT: Final = 60.0


class PackRun(WarmUpRun):
    """Runs a pack job."""

    def __init__(
        self,
        packing: PackServices,
        job: WarmUpJob,
        inventory: Inventory,
        record: JobRecord | None,
        services: WarmUpServices,
    ) -> None:
        super().__init__(job, inventory, record, services)
        self._packing = packing
        assert job.order.pack is not None  # noqa: S101 # who starts it has looked
        self._order: PackOrder = job.order.pack

    async def run(self) -> None:
        """Runs the job to its end."""
        job, budget = self._job, self._packing.budget
        memory = max(LEAST_MEMORY, min(MOST_MEMORY, budget.capacity // SHARE))
        try:
            await budget.acquire(memory, BUDGET_WAIT)
            try:
                await self._carry_out(memory)
            finally:
                budget.release(memory)
        except MalformedPack as damage:
            job.reason = f"the index {self._order.index_key} is refused: {damage}"
        except OriginError as failure:
            job.reason = failure.reason
        except ForebayError as failure:
            job.reason = str(failure)
        job.state = "done" if job.reason is None and not job.failed else "failed"

    async def _carry_out(self, memory: int) -> None:
        part_size = max(LEAST_PART, memory // 2, self._order.shard_size // (MAX_PARTS - 1))
        pack = PresentPack(self._order, self._packing, part_size)
        match self._order.action:
            case "pack":
                await self._pack(pack, window=memory - memory // 2)
            case "check":
                await self._check(pack)
            case "delete":
                await self._delete(pack)
            case "unpack":
                await self._unpack(pack)
            case _:
                assert_never(self._order.action)

    async def _pack(self, pack: PresentPack, window: int) -> None:
        """Writes the shards and publishes the index. `window`: bytes of objects that are read ahead."""
        job, old = self._job, await pack.index()
        timers = self._services.timers
        shards = PackedShards(
            job, self._order, self._inventory, self._packing, pack, timers, window, self._record_entries
        )
        if not job.listing_ended:
            await shards.list_objects(old)
            if job.reason is not None:
                return
            job.listing_ended = True
            if not job.listed and old is None:
                job.reason = "there is no object to pack"
                return
            await self._save_inventory()
        while job.position.entries < job.listed:
            await shards.write_next()
        if job.shards or (old is not None and old.applied):
            sources: list[MemberSource] = [IndexSource(old)] if old is not None else []
            written, deleted = shards.members(), DeletedOriginals(self._order, self._packing)
            since, present = self._packing.fences.now(), PresentMembers(written)
            async for number, _ in deleted.members(written):
                present.leave_out(number)
            await pack.publish(MergedMembers([*sources, present]), old)
            await deleted.hide(present, since)
            await shards.remove_parts()

    def _record_entries(self, completed: CompletedEntries) -> None:
        """Records the entries of the latest shard."""
        for number, entry in completed:
            if entry.failure is not None:
                self._job.fail(entry.failure)
            self._unreported += self._job.position.complete(number, entry)
        self.save()

    async def _check(self, pack: PresentPack) -> None:
        index, job = await pack.required_index(), self._job
        job.listed, job.bytes_listed, job.listing_ended = index.members, index.index.description.sizes, True
        async for members, differing in check_members(self._packing.origins, index):
            job.bytes_done += members.size
            job.done += members.number - len(differing)
            for key, reason in differing:
                job.fail(WarmUpFailure(self._order.bucket, key, reason))
            job.note_speed(self._services.timers.time())

    async def _delete(self, pack: PresentPack) -> None:
        index, job, only = await pack.required_index(), self._job, self._order.only
        number = await pack.publish(MergedMembers([IndexSource(index)], lambda key: not key.startswith(only)), index)
        job.listed = job.done = index.members - number
        job.listing_ended = True
        if not job.done:
            job.reason = f"no member begins with {only!r}"

    async def _unpack(self, pack: PresentPack) -> None:
        since, job = self._packing.fences.now(), self._job
        index = await pack.required_index()
        job.listing_ended = False
        async for member, problem in write_objects(self._packing, index, self._order.only, since):
            job.listed += 1
            job.bytes_listed += member.size
            if problem:
                job.fail(WarmUpFailure(self._order.bucket, member.key, problem))
            else:
                job.done += 1
                job.bytes_done += member.size
            job.note_speed(self._services.timers.time())
        job.listing_ended = True
        if job.failed:
            return  # the members stay as they are
        await self._delete(pack)
