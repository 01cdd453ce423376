"""Installs: what was staged on its way up becomes the object's bytes, once the origin has told its facts.

    the write is confirmed, its last fence is up ──> one HEAD ──> the head that names the staged blocks

An install runs on its own; readers that come meanwhile wait for it rather than fetch what is at hand. The owner of the
object does it (peers.owners), when our bytes are in the tier that it reads as well. It is best effort: what is not
installed is fetched by whoever reads it first.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from forebay.core.errors import ForebayError
from forebay.core.names import Generation, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.origin.origin_identity import OriginIdentity
from forebay.peers.frames import Document
from forebay.peers.owners import Owner, Peers, PeerUnavailable
from forebay.peers.peer_codec import encode_name
from forebay.storage.tiers import Tiers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedBody:
    """Bytes that passed through on their way up and are in the tiers, reachable once a head names their generation."""

    generation: Generation
    block_size: int
    size: int
    etag: str
    """As the origin confirmed it."""


def encode_staged(staged: StagedBody) -> Document:
    """For the worker that owns the object."""
    return {
        "generation": staged.generation.hex(),
        "block": staged.block_size,
        "size": staged.size,
        "etag": staged.etag,
    }


def decode_staged(document: Document) -> StagedBody:
    generation = Generation(bytes.fromhex(document["generation"]))
    return StagedBody(generation, int(document["block"]), int(document["size"]), str(document["etag"]))


Confirm: TypeAlias = Callable[[ObjectName, StagedBody, OriginIdentity | None], Awaitable[None]]
"""Asks the origin for the facts, and stores the head if they are those of the staged bytes. Raises ForebayError."""


class StagedObjects:
    """Those under way, by object."""

    def __init__(self, confirm: Confirm, tiers: Tiers, tasks: TaskRegistry, peers: Peers) -> None:
        self._confirm = confirm
        self._tiers = tiers
        self._tasks = tasks
        self._peers = peers
        self._installing: dict[ObjectName, asyncio.Task[None]] = {}

    def install(self, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None) -> None:
        """To be called when the write was confirmed and its last fence is up. `identity`: the writer's."""
        owner = self._peers.owner(name)
        if owner is not None:
            self._tasks.spawn(self._at_owner(owner, name, staged, identity), f"install {name.path}")
            return
        task = self._tasks.spawn(self._here(name, staged, identity), f"install {name.path}")
        self._installing[name] = task
        task.add_done_callback(lambda done: self._ended(name, done))

    async def wait_installed(self, name: ObjectName) -> None:
        """Wait for what is being installed as `name`."""
        task = self._installing.get(name)
        if task is not None:
            await asyncio.wait([task])

    def fence(self, name: ObjectName) -> None:
        """Nobody waits any more for what is being installed: it has been replaced."""
        self._installing.pop(name, None)

    def fence_bucket(self, bucket: str) -> None:
        for name in [name for name in self._installing if name.bucket == bucket]:
            del self._installing[name]

    async def _here(self, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None) -> None:
        try:
            await self._confirm(name, staged, identity)
        except ForebayError as error:
            _log.info("%s was written, but is not installed: %s", name.path, error)

    async def _at_owner(
        self, owner: Owner, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None
    ) -> None:
        await self._tiers.flush()
        order = {"name": encode_name(name), "staged": encode_staged(staged)}
        with suppress(PeerUnavailable):
            await owner.peer.call(order | {"kind": "install", "asker": identity.id if identity is not None else None})

    def _ended(self, name: ObjectName, task: asyncio.Task[None]) -> None:
        if self._installing.get(name) is task:
            del self._installing[name]
