"""Pending writes as objects: `/<bucket>/.forebay/writes/<key>`.

    GET, HEAD     the pending writes of one object, as JSON, as they were accepted
    listing       the objects that have any

A principal sees the writes of objects that it may read; one with its own origin credential sees none, as only the
origin knows what that may read. They are read-only here: the operator retries or discards writes on the admin port.
"""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict

from forebay.core.names import ObjectName
from forebay.core.pending_write import PendingWrite
from forebay.policy.grants import may_read
from forebay.request.resource import ResourceDocument, ResourceEntry, ResourceKind, ResourceOwner
from forebay.write.back.node_backlog import NodeBacklog


class WriteResource:
    """The pending writes of the node."""

    def __init__(self, backlog: NodeBacklog) -> None:
        self._backlog = backlog

    @property
    def kind(self) -> ResourceKind:
        """The operations on pending writes as objects."""
        return ResourceKind(
            self,
            "Pending writes are read here, and changed on the admin port.",
            "A pending write is discarded on the admin port.",
        )

    async def entries(self, owner: ResourceOwner) -> Sequence[ResourceEntry]:
        """The objects with pending writes that the owner may read."""
        writes: dict[str, list[PendingWrite]] = {}
        for write in await self._writes(owner, ""):
            writes.setdefault(write.key, []).append(write)
        return [
            ResourceEntry(key, len(_document(each)), min(write.accepted_at for write in each))
            for key, each in writes.items()
        ]

    async def read(self, owner: ResourceOwner, name: str) -> ResourceDocument | None:
        """The pending writes of an object."""
        writes = [write for write in await self._writes(owner, name) if write.key == name]
        if not writes:
            return None
        return ResourceDocument(_document(writes), min(write.accepted_at for write in writes))

    async def _writes(self, owner: ResourceOwner, prefix: str) -> list[PendingWrite]:
        found: list[PendingWrite] = []
        after: str | None = "" if owner.identity is None else None
        while after is not None:
            page = await self._backlog.page(owner.bucket, prefix, "", after)
            found += [each for each in page.writes if may_read(owner.principal, ObjectName(each.bucket, each.key))]
            after = page.next
            await asyncio.sleep(0)
        return found


def _document(writes: Sequence[PendingWrite]) -> bytes:
    return json.dumps({"writes": [asdict(each) for each in writes]}, indent=1).encode() + b"\n"
