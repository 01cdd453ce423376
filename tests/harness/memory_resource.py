"""A kind of resource in memory, which can be read, sent and removed."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from forebay.core.buffers import Piece
from forebay.core.heads import HeaderPairs
from forebay.request.resource import ResourceDocument, ResourceEntry, ResourceKind, ResourceOwner
from harness.fake_origin import FakeOrigin
from harness.rig import Rig

MODIFIED = 1_800_000_000.0


class MemoryResource:
    """Keeps each owner's bodies by name. A name that ends in `.file` is kept as a file in `directory`."""

    def __init__(self, directory: Path | None = None) -> None:
        self.largest_body = 1000
        self._directory = directory
        self._kept: dict[tuple[str, str, str], bytes] = {}

    @property
    def kind(self) -> ResourceKind:
        return ResourceKind(self, self, self)

    async def entries(self, owner: ResourceOwner) -> Sequence[ResourceEntry]:
        mine = (owner.bucket, owner.principal.id)
        return [ResourceEntry(key[2], len(body), MODIFIED) for key, body in self._kept.items() if key[:2] == mine]

    async def read(self, owner: ResourceOwner, name: str) -> ResourceDocument | None:
        body = self._kept.get((owner.bucket, owner.principal.id, name))
        if body is None:
            return None
        if self._directory is not None and name.endswith(".file"):
            file = self._directory / name
            file.write_bytes(body)
            return ResourceDocument(file, MODIFIED, "text/plain")
        return ResourceDocument(body, MODIFIED, "text/plain", (("x-forebay-note", name),))

    async def write(self, owner: ResourceOwner, name: str, body: AsyncIterator[Piece]) -> HeaderPairs:
        self._kept[owner.bucket, owner.principal.id, name] = b"".join([bytes(piece) async for piece in body])
        return (("x-forebay-kept", "1"),)

    async def remove(self, owner: ResourceOwner, name: str) -> None:
        self._kept.pop((owner.bucket, owner.principal.id, name), None)


@asynccontextmanager
async def rig_with_notes(tmp_path: Path, **settings: Any) -> AsyncIterator[tuple[FakeOrigin, Rig]]:
    """A worker with resources of a kind `notes`. The origin has objects where they are, which nobody sees."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path / "rig", **settings) as rig:
        origin.store.put("open", ".forebay/notes/a", b"of the origin")
        origin.store.put("open", "open/object", b"object")
        rig.parts.requests.gateway.resources.kinds["notes"] = MemoryResource(tmp_path).kind
        yield origin, rig
        probes = origin.log.count(operation="ListBuckets")
        assert origin.log.count() == probes, "a request about a resource reached the origin"
