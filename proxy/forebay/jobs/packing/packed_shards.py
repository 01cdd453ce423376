"""The shards of a pack job: one after the other, each verified and recorded before the next one is begun.

    listing ──> inventory ──> objects, read ahead ──> shard ──> its members read back ──> its index ──> recorded

A job that is cut off goes on behind its last recorded shard. One that can't be verified, or of which an object changed
meanwhile, is written again.
"""

from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final, TypeAlias

from forebay.core.errors import OriginBroken, OriginError, OriginUnreachable, Throttled
from forebay.core.names import ObjectName
from forebay.core.timers import Timers
from forebay.jobs.packing.index_publisher import PartSource
from forebay.jobs.packing.multipart_writer import pause_between_attempts
from forebay.jobs.packing.object_stream import ObjectStream, StreamedObject
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.packing.present_pack import PresentPack
from forebay.jobs.packing.shard_writer import ShardWriter
from forebay.jobs.state.inventory import Inventory, InventoryEntry
from forebay.jobs.state.job_progress import CompletedEntry, WarmUpFailure
from forebay.jobs.state.pack_order import PART_SUFFIX, PackOrder
from forebay.jobs.state.warm_up_job import WarmUpJob
from forebay.jobs.warm_up.warm_up_fetch import OUTAGE_PATIENCE
from forebay.namespace.packs.index_file import IndexFile
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ObjectOpened
from forebay.origin.small_objects import delete_object, put_object
from forebay.protocol.packs.pack_index import IndexWriter
from forebay.protocol.packs.packed_member import PackShard

BROKEN_SHARDS: Final = 3
"""Writes of a shard that can't be verified, or of which an object changes meanwhile, at most."""
_TAR: Final = (("Content-Type", "application/x-tar"),)

CompletedEntries: TypeAlias = Sequence[tuple[int, CompletedEntry]]
"""Entries of the inventory that are done, with their numbers."""


class PackedShards:
    """See the module."""

    def __init__(
        self,
        job: WarmUpJob,
        order: PackOrder,
        inventory: Inventory,
        packing: PackServices,
        pack: PresentPack,
        timers: Timers,
        window: int,
        record: Callable[[CompletedEntries], None],
    ) -> None:
        """`window`: bytes of objects that are read ahead. `record`: called with the entries of each finished shard."""
        self._job, self._order, self._inventory = job, order, inventory
        self._packing, self._pack, self._timers = packing, pack, timers
        self._window, self._record = window, record

    async def list_objects(self, old: IndexFile | None) -> None:
        """Adds the objects that become members: those that the `old` index lacks, or has in another version."""
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

    async def write_next(self) -> None:
        """Writes the next shard, and waits while the origin is away. Raises OriginError, S3Error."""
        job, timers = self._job, self._timers
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
        writer = ShardWriter(packing.origins, self._pack.upload(name, _TAR), 0)
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
                    job.note_speed(self._timers.time())
            if writer.members:
                shard = await writer.finish()
                await self._write_part(shard, writer)
                job.shards.append(shard)
        except BaseException:
            await writer.abort()
            raise
        self._record(completed)

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

    def members(self) -> PartSource:
        """Returns the members of all shards."""
        return PartSource(self._packing.origins, self._order.bucket, self._job.shards, self._packing.directory)

    async def remove_parts(self) -> None:
        """Deletes the indexes of single shards, once the pack's is published."""
        for shard in self._job.shards:
            await delete_object(self._packing.origins, ObjectName(self._order.bucket, shard.key + PART_SUFFIX))


def _is_same_sample(writer: ShardWriter, key: str) -> bool:
    """Returns whether a key belongs to the same sample as the last member, by WebDataset's rule: all before the first
    dot of the name. A shard does not end within a sample."""
    return bool(writer.members) and _sample(writer.members[-1].key) == _sample(key) != key


def _sample(key: str) -> str:
    folder, slash, name = key.rpartition("/")
    return folder + slash + name.partition(".")[0]
