"""Staged objects: bytes staged while they were written become the object, once the origin has confirmed its facts.

    write confirmed, last fence raised ──> HEAD ──> a head that names the staged blocks

An installation runs on its own; readers that arrive meanwhile wait for it, rather than fetch bytes that are here. The
owner of the object does it (peers.owners), once the bytes are in the tier that both workers read. It is best effort: an
object that is not installed is fetched by its first reader.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass

from forebay.core.errors import ForebayError, PeerUnavailable
from forebay.core.heads import Head
from forebay.core.names import Generation, ObjectName
from forebay.core.task_registry import TaskRegistry
from forebay.metadata.object_heads import ObjectHeads
from forebay.origin.origin_identity import OriginIdentity, request_credential
from forebay.origin.reads.object_reads import ObjectReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ObjectOpened
from forebay.peers.frames import Document
from forebay.peers.owners import Owner, Peers
from forebay.peers.peer_codec import encode_name
from forebay.storage.tiers import Tiers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StagedBody:
    """A written body whose blocks are in the tiers, unreachable until a head names their generation."""

    generation: Generation
    block_size: int
    size: int
    etag: str
    """The ETag that the origin has confirmed."""


def encode_staged(staged: StagedBody) -> Document:
    """Returns a staged body as a document, for the worker that owns the object."""
    return {
        "generation": staged.generation.hex(),
        "block": staged.block_size,
        "size": staged.size,
        "etag": staged.etag,
    }


def decode_staged(document: Document) -> StagedBody:
    """Returns the staged body of a document. Raises the errors of peers.peer_codec.decode."""
    generation = Generation(bytes.fromhex(document["generation"]))
    return StagedBody(generation, int(document["block"]), int(document["size"]), str(document["etag"]))


class StagedObjects:
    """Installs staged bodies. Knows the installations under way, by object."""

    def __init__(self, reads: ObjectReads, tiers: Tiers, heads: ObjectHeads, tasks: TaskRegistry, peers: Peers) -> None:
        self._reads = reads
        self._tiers = tiers
        self._heads = heads
        self._tasks = tasks
        self._peers = peers
        self._installing: dict[ObjectName, asyncio.Task[None]] = {}

    def install(self, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None = None) -> None:
        """Starts to install a body that was written as `identity`. The write is confirmed, its last fence raised."""
        owner = self._peers.owner(name)
        if owner is not None:
            self._tasks.spawn(self._install_at_owner(owner, name, staged, identity), f"install {name.path}")
            return
        task = self._tasks.spawn(self._install(name, staged, identity), f"install {name.path}")
        self._installing[name] = task
        task.add_done_callback(lambda done: self._task_done(name, done))

    def is_installing(self, name: ObjectName) -> bool:
        """Whether an installation of `name` is under way."""
        return name in self._installing

    async def wait_installed(self, name: ObjectName) -> None:
        """Waits for the installation of `name` under way, if there is one."""
        task = self._installing.get(name)
        if task is not None:
            await asyncio.wait([task])

    def fence(self, name: ObjectName) -> None:
        """Keeps later readers from waiting for an installation: its bytes have been replaced."""
        self._installing.pop(name, None)

    def fence_bucket(self, bucket: str) -> None:
        """Fences every object of a bucket, as `fence` does one."""
        for name in [name for name in self._installing if name.bucket == bucket]:
            del self._installing[name]

    async def _install(self, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None) -> None:
        since, requested_at = self._heads.now()
        self._heads.requests.enter(name)
        try:
            answer = await self._reads.open_read(
                name, OriginRead("HEAD"), credential=await request_credential(identity)
            )
        except ForebayError as error:
            _log.info("%s was written, but is not installed: %s", name.path, error)
            return
        finally:
            self._heads.requests.leave(name)
        if not isinstance(answer, ObjectOpened):
            return
        facts = self._heads.with_known_facts(name, answer.facts)
        if facts.version.etag == staged.etag and facts.size == staged.size:
            self._heads.store(name, Head(facts, staged.block_size, staged.generation, requested_at), since)

    async def _install_at_owner(
        self, owner: Owner, name: ObjectName, staged: StagedBody, identity: OriginIdentity | None
    ) -> None:
        await self._tiers.flush()
        with suppress(PeerUnavailable):
            await owner.peer.call(
                {
                    "kind": "install",
                    "name": encode_name(name),
                    "staged": encode_staged(staged),
                    "identity": identity.id if identity is not None else None,
                }
            )

    def _task_done(self, name: ObjectName, task: asyncio.Task[None]) -> None:
        if self._installing.get(name) is task:
            del self._installing[name]
