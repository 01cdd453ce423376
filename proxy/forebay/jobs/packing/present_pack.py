"""The pack of an order as the origin has it: its index, and the index that takes its place.

    index   HEAD ──> tombstones ──> index, without the members that they hide
    publish  new index, as a whole ──> the tombstones that were applied to the old one go

Until an index is published nothing has changed for readers, and afterwards everything at once.
"""

from typing import Final

from forebay.core.errors import OriginBroken
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.jobs.packing.index_publisher import MergedMembers, publish_index
from forebay.jobs.packing.multipart_writer import MultipartWriter, pause_between_attempts
from forebay.jobs.packing.pack_services import PackServices
from forebay.jobs.state.pack_order import PackOrder
from forebay.namespace.packs.index_file import IndexFile, fetch_index
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse

_JSON: Final = (("Content-Type", "application/json"),)


class PresentPack:
    """See the module. Keeps no state. `part_size`: bytes of each part of an upload."""

    def __init__(self, order: PackOrder, packing: PackServices, part_size: int) -> None:
        self._order, self._packing, self._part_size = order, packing, part_size

    async def index(self) -> IndexFile | None:
        """Returns the index as it is; None: there is none. Raises MalformedPack, OriginError.

        The tombstones are read first: an index that another node publishes takes those away whose members it leaves
        out.
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

    async def required_index(self) -> IndexFile:
        """Returns the index of a pack that has to be there. Raises OriginBroken where it is not."""
        index = await self.index()
        if index is None:
            raise OriginBroken(f"there is no pack: s3://{self._order.bucket}/{self._order.index_key} does not exist")
        return index

    async def publish(self, merged: MergedMembers, old: IndexFile | None) -> int:
        """Publishes an index in place of the `old` one, whose deleted members it has not; so their tombstones go.
        Returns its number of members. Raises ForebayError."""
        order, packing = self._order, self._packing
        index, references = (ObjectName(order.bucket, key) for key in (order.index_key, order.references_key))
        await packing.invalidator.invalidate((index, references))
        try:
            number = await publish_index(
                merged, order.prefix, self.upload(index), self.upload(references, _JSON), packing.clock()
            )
        finally:
            await packing.invalidator.invalidate((index, references))
        await packing.tombstones.remove(order.bucket, sorted(old.applied) if old is not None else ())
        return number

    def upload(self, name: ObjectName, headers: HeaderPairs = ()) -> MultipartWriter:
        """Writes an object of the pack."""
        return MultipartWriter(self._packing.origins, name, self._part_size, pause_between_attempts, headers)
