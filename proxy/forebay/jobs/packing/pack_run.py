"""One pack job from its listing to its end.

    pack      listing ──> inventory ──> shard after shard, each verified and recorded
                      ──> listing once more: what was deleted meanwhile is left out ──> index, references
    check     every member of the index against the bytes in its shard
    delete    a new index without the members of a prefix
    unpack    members of a prefix are written as objects, where there is none; then as delete

Until the index is published nothing has changed for readers, and afterwards everything at once. A job that is cut off
goes on behind its last verified shard. Packing a prefix again adds what is new or has changed, and keeps the rest.

What it reads and writes at the origin takes background turns, and memory of a fixed size from the budget of buffers.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final, assert_never

from forebay.core.errors import ForebayError, MalformedPack, OriginBroken, OriginError, OriginUnreachable, Throttled
from forebay.core.fences import Tick
from forebay.core.names import ObjectName
from forebay.jobs.inventory import Inventory, InventoryEntry
from forebay.jobs.job_progress import CompletedEntry, WarmUpFailure
from forebay.jobs.job_store import JobRecord
from forebay.jobs.packing.deleted_originals import PresentMembers, deleted_members
from forebay.jobs.packing.index_publisher import (
    IndexSource,
    MemberSource,
    MergedMembers,
    PartSource,
    publish_index,
)
from forebay.jobs.packing.multipart_writer import LEAST_PART, MAX_PARTS, MultipartWriter, pause_between_attempts
from forebay.jobs.packing.object_stream import ObjectStream, StreamedObject
from forebay.jobs.packing.pack_order import PART_SUFFIX, PackOrder
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.packing.shard_writer import ShardWriter
from forebay.jobs.packing.unpacking import check_members, write_objects
from forebay.jobs.warm_up_fetch import OUTAGE_PATIENCE
from forebay.jobs.warm_up_job import WarmUpJob
from forebay.jobs.warm_up_run import WarmUpRun, WarmUpServices
from forebay.namespace.packs.index_file import IndexFile, fetch_index
from forebay.origin.origin_read import OriginRead
from forebay.origin.read_outcomes import ErrorResponse, ObjectOpened
from forebay.origin.small_objects import delete_object, put_object
from forebay.protocol.packs.pack_index import IndexWriter
from forebay.protocol.packs.packed_member import PackedMember, PackShard
from forebay.protocol.packs.tombstones import Tombstone

MOST_MEMORY: Final = 32 << 20
LEAST_MEMORY: Final = 8 << 20
SHARE: Final = 8
"""One in so many bytes of the buffers is a job's at most."""
BUDGET_WAIT: Final = 60.0
BROKEN_SHARDS: Final = 3
"""How often a shard is written that can't be verified, or of which an object changed meanwhile."""
_JSON: Final = (("Content-Type", "application/json"),)

_log = logging.getLogger(__name__)


class PackRun(WarmUpRun):
    """Runs a pack job."""

    def __init__(
        self,
        job: WarmUpJob,
        inventory: Inventory,
        record: JobRecord | None,
        services: WarmUpServices,
        packing: PackServices,
    ) -> None:
        super().__init__(job, inventory, record, services)
        self._packing = packing
        assert job.order.pack is not None  # noqa: S101 # who starts it has looked
        self._order: PackOrder = job.order.pack
        self._part_size = LEAST_PART
        self._window = LEAST_MEMORY - LEAST_PART

    async def run(self) -> None:
        """Runs the job to its end."""
        job, budget = self._job, self._packing.budget
        memory = max(LEAST_MEMORY, min(MOST_MEMORY, budget.capacity // SHARE))
        self._part_size = max(LEAST_PART, memory // 2, self._order.shard_size // (MAX_PARTS - 1))
        self._window = memory - memory // 2
        try:
            await budget.acquire(memory, BUDGET_WAIT)
            try:
                await self._carry_out()
            finally:
                budget.release(memory)
        except MalformedPack as damage:
            job.reason = f"the index {self._order.index_key} is refused: {damage}"
        except OriginError as failure:
            job.reason = failure.reason
        except ForebayError as failure:
            job.reason = str(failure)
        job.state = "done" if job.reason is None and not job.failed else "failed"

    async def _carry_out(self) -> None:
        match self._order.action:
            case "pack":
                await self._pack()
            case "check":
                await self._check()
            case "delete":
                await self._delete()
            case "unpack":
                await self._unpack()
            case _:
                assert_never(self._order.action)

    # Packing

    async def _pack(self) -> None:
        job, old = self._job, await self._present_index()
        if not job.listing_ended:
            await self._list_objects(old)
            if job.reason is not None:
                return
            job.listing_ended = True
            if not job.listed and old is None:
                job.reason = "there is no object to pack"
                return
            await self._save_inventory()
        while job.position.entries < job.listed:
            await self._write_shard_patiently()
        if job.shards or (old is not None and old.applied):
            sources: list[MemberSource] = [IndexSource(old)] if old is not None else []
            parts = PartSource(self._packing.origins, self._order.bucket, job.shards, self._packing.directory)
            since, present = self._packing.fences.now(), PresentMembers(parts)
            async for number, _ in self._deleted(parts):
                present.leave_out(number)
            await self._publish(MergedMembers([*sources, present]), old)
            await self._hide_deleted(present, since)
            await self._remove_parts()

    async def _list_objects(self, old: IndexFile | None) -> None:
        job, order = self._job, self._order
        try:
            async for entry in self._packing.origins.list_objects(order.bucket, order.prefix):
                if entry.key.startswith(order.into):
                    continue
                known = await old.find(entry.key) if old is not None else None
                if known is not None and (known.etag, known.size, known.modified) == (
                    entry.etag,
                    entry.size,
                    int(entry.last_modified),
                ):
                    continue
                self._inventory.add(InventoryEntry(order.bucket, entry.key, entry.size))
                job.listed += 1
                job.bytes_listed += entry.size
        except OriginError as error:
            job.reason = f"the listing broke off: {error.reason}"

    async def _write_shard_patiently(self) -> None:
        """Writes the next shard, and waits while the origin is away."""
        job, timers = self._job, self._services.timers
        began, attempt, broken = timers.time(), 0, 0
        done, failed, size = job.done, job.failed, job.bytes_done
        while True:
            try:
                await self._write_shard()
            except (OriginUnreachable, Throttled) as failure:
                problem = str(failure)
            except OriginBroken as failure:
                problem = failure.reason
                broken += 1
            else:
                job.waiting_for = None
                return
            if broken == BROKEN_SHARDS:
                raise OriginBroken(problem)
            if timers.time() - began >= OUTAGE_PATIENCE:
                raise OriginUnreachable(f"it has waited for {OUTAGE_PATIENCE / 60:.0f} minutes: {problem}")
            job.waiting_for = problem
            job.done, job.failed, job.bytes_done = done, failed, size
            attempt = min(attempt + 1, 7)
            await pause_between_attempts(attempt)

    async def _write_shard(self) -> None:
        job, order, packing = self._job, self._order, self._packing
        start = job.position.entries
        name = ObjectName(order.bucket, order.shard_key(job.id, len(job.shards)))
        writer = ShardWriter(packing.origins, self._upload(name, _TAR), 0)
        completed: list[tuple[int, CompletedEntry]] = []
        stream = ObjectStream(packing.origins, packing.tasks, self._inventory, start, self._window, job.id)
        try:
            async with aclosing(stream.objects()) as objects:
                async for each in objects:
                    if writer.size >= order.shard_size and not _is_same_sample(writer, each.entry.key):
                        break
                    failure = await self._add(writer, each)
                    completed.append((each.number, CompletedEntry(0 if failure else each.entry.size or 0, failure)))
                    if failure is None:
                        job.done += 1
                        job.bytes_done += each.entry.size or 0
                    job.note_speed(self._services.timers.time())
            if writer.members:
                shard = await writer.finish()
                await self._write_part(shard, writer)
                job.shards.append(shard)
        except BaseException:
            await writer.abort()
            raise
        for number, entry in completed:
            if entry.failure is not None:
                job.fail(entry.failure)
            self._unreported += job.position.complete(number, entry)
        self.save()

    async def _add(self, writer: ShardWriter, each: StreamedObject) -> WarmUpFailure | None:
        entry, problem = each.entry, each.problem
        if each.found is not None:
            await writer.add(each.found)
        elif not problem:
            answer = await self._packing.origins.open_read(entry.name, OriginRead("HEAD"))
            if isinstance(answer, ObjectOpened):
                await writer.add_large(entry.name, answer.facts)
            else:
                problem = "the origin does not show it"
        return WarmUpFailure(entry.bucket, entry.key, problem) if problem else None

    async def _write_part(self, shard: PackShard, writer: ShardWriter) -> None:
        index = IndexWriter()
        pieces = [index.add(member) for member in writer.members]
        content = b"".join((*pieces, index.finish([self._order.prefix], [shard], self._packing.clock())))
        await put_object(self._packing.origins, ObjectName(self._order.bucket, shard.key + PART_SUFFIX), content)

    async def _remove_parts(self) -> None:
        for shard in self._job.shards:
            await delete_object(self._packing.origins, ObjectName(self._order.bucket, shard.key + PART_SUFFIX))

    def _deleted(self, source: MemberSource) -> AsyncIterator[tuple[int, PackedMember]]:
        """The members whose originals are not there any more, with their numbers."""
        order, packing = self._order, self._packing
        pending = packing.pending.state(order.bucket, order.prefix)
        return deleted_members(source, packing.origins.list_objects(order.bucket, order.prefix), pending)

    async def _hide_deleted(self, source: MemberSource, since: Tick) -> None:
        """Hides published members whose originals were deleted through this node `since` then."""
        bucket, prefix = self._order.bucket, self._order.prefix
        written = self._packing.fences.raised_since(since)
        if written is None or bucket in written:
            written = None
        elif not any(name[0] == bucket and name[1].startswith(prefix) for name in written if isinstance(name, tuple)):
            return
        hidden = [
            (self._order.index_key, Tombstone(member.key, source.shards[member.shard].key, member.offset))
            async for _, member in self._deleted(source)
            if written is None or ObjectName(bucket, member.key) in written
        ]
        await self._packing.deletions.hide(bucket, hidden, None)

    # What is there

    async def _present_index(self) -> IndexFile | None:
        """The index of the pack as it is; None: there is none. Raises MalformedPack, OriginError.

        The tombstones first: an index that another node publishes takes those away whose members it leaves out.
        """
        name = ObjectName(self._order.bucket, self._order.index_key)
        answer = await self._packing.origins.open_read(name, OriginRead("HEAD"))
        if isinstance(answer, ErrorResponse) and answer.status == 404:
            return None
        keys, deleted = await self._packing.tombstones.find(name.bucket, name.key, ())
        file = await fetch_index(self._packing.origins, name, self._packing.directory)
        await file.hide(deleted)
        file.applied = set(keys)
        return file

    async def _index(self) -> IndexFile:
        index = await self._present_index()
        if index is None:
            raise OriginBroken(f"there is no pack: s3://{self._order.bucket}/{self._order.index_key} does not exist")
        return index

    async def _check(self) -> None:
        index, job = await self._index(), self._job
        job.listed, job.bytes_listed, job.listing_ended = index.members, index.index.description.sizes, True
        async for members, differing in check_members(self._packing.origins, index):
            job.bytes_done += members.size
            job.done += members.number - len(differing)
            for key, reason in differing:
                job.fail(WarmUpFailure(self._order.bucket, key, reason))
            job.note_speed(self._services.timers.time())

    async def _delete(self) -> None:
        index, job, only = await self._index(), self._job, self._order.only
        number = await self._publish(MergedMembers([IndexSource(index)], lambda key: not key.startswith(only)), index)
        job.listed = job.done = index.members - number
        job.listing_ended = True
        if not job.done:
            job.reason = f"no member begins with {only!r}"

    async def _unpack(self) -> None:
        since, job = self._packing.fences.now(), self._job
        index = await self._index()
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
        await self._delete()

    async def _publish(self, merged: MergedMembers, old: IndexFile | None) -> int:
        """Publishes an index in place of the `old` one, whose deleted members it has not; so their tombstones go."""
        order, packing = self._order, self._packing
        index, references = (ObjectName(order.bucket, key) for key in (order.index_key, order.references_key))
        await packing.invalidator.invalidate((index, references))
        try:
            number = await publish_index(
                merged, order.prefix, self._upload(index), self._upload(references, _JSON), packing.clock()
            )
        finally:
            await packing.invalidator.invalidate((index, references))
        await packing.tombstones.remove(order.bucket, sorted(old.applied) if old is not None else ())
        return number

    def _upload(self, name: ObjectName, headers: tuple[tuple[str, str], ...] = ()) -> MultipartWriter:
        return MultipartWriter(self._packing.origins, name, self._part_size, pause_between_attempts, headers)


_TAR: Final = (("Content-Type", "application/x-tar"),)


def _is_same_sample(writer: ShardWriter, key: str) -> bool:
    """Whether a key belongs to the same sample as the last member, by WebDataset's rule: all before the first dot of
    the name. A shard does not end within a sample."""
    return bool(writer.members) and _sample(writer.members[-1].key) == _sample(key) != key


def _sample(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return folder + slash + name.partition(".")[0]
