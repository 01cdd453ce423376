"""Pending objects: the versions that readers see of objects with writes in the journal that the origin does not have
yet.

    object ──> its pending writes, as they were written ──> the last one: a head, or that the object was deleted
                                                              └──> the bytes: in records, or in body files

Every worker has all of them in memory: a few hundred bytes for each write, and the bytes of small bodies. The bytes
of blocks come verified, like those of a tier; other than a tier, nothing is evicted.

A head is that of the version that the origin will have (its ETag is computed from the bytes), so its blocks are named
alike before and after.
"""

import asyncio
import bisect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import WritesPending
from forebay.core.heads import Head
from forebay.core.names import BlockId, Generation, ObjectName
from forebay.storage.journal.body_file import BodyDamaged, BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_names import PendingNames

_log = logging.getLogger(__name__)

ReadBody: TypeAlias = Callable[[BodyRef, Span], Awaitable[Buffer]]
"""Reads verified bytes of a body file. Raises OSError, BodyDamaged."""

Objects: TypeAlias = Iterable[ObjectName] | Callable[[ObjectName], bool]
"""Some objects: their names, or a predicate, with which every pending one is looked at."""


READ_SECONDS: Final = 30.0
"""Seconds that a read that the origin answers waits for pending writes."""
NAMES: Final = 200
"""Names that are looked at in one go."""
_CHECKED_SIZE: Final = 1 << 20
"""Bytes that are checked at a time."""
_LOOKING: Final = RecordId("", -1)
"""Stands for the records that were not looked at yet."""


class BodyPart(NamedTuple):
    """A run of an object's bytes: in a body file, or here."""

    size: int
    content: bytes
    file: BodyRef | None


@dataclass(frozen=True, slots=True)
class PendingVersion:
    """The version that one write makes of an object."""

    record: RecordId
    written: int
    """The time of the write, on the node's clock: the later of two writes of an object is what readers see."""
    head: Head | None
    """None: the object is deleted."""
    parts: tuple[BodyPart, ...] = ()


class Deleted:
    """The object is deleted here, and may still be at the origin."""


DELETED: Final = Deleted()


class PendingObjects:
    """The table of one worker."""

    def __init__(self, read_body: ReadBody) -> None:
        self._read_body = read_body
        self.read_seconds = READ_SECONDS
        self._objects: dict[ObjectName, list[PendingVersion]] = {}
        self._names = PendingNames()
        self._waiting: list[tuple[set[RecordId], asyncio.Future[None]]] = []
        self._damages: dict[RecordId, str] = {}
        """Why the bytes of a write that is still pending could not be read."""
        self._checked: set[RecordId] = set()
        """The pending writes that `check` has read, or reads."""

    def __len__(self) -> int:
        """Returns the number of objects."""
        return len(self._objects)

    @property
    def waiting(self) -> int:
        """The number of requests that wait until writes are settled."""
        return len(self._waiting)

    def __contains__(self, name: ObjectName) -> bool:
        """Returns whether a write of the object is pending."""
        return name in self._objects

    def add(self, name: ObjectName, version: PendingVersion) -> None:
        """Adds a write of the object. Writes at the same time may come in another order than they were written in."""
        versions = self._objects.get(name)
        if versions is None:
            versions = self._objects[name] = []
            self._names.add(name)
        bisect.insort(versions, version, key=lambda each: each.written)

    def remove(self, name: ObjectName, record: RecordId) -> None:
        """Removes a write: the origin has it, or a person gave it up."""
        versions = self._objects.get(name, [])
        self._damages.pop(record, None)
        self._checked.discard(record)
        kept = [version for version in versions if version.record != record]
        if kept:
            self._objects[name] = kept
        elif versions:
            del self._objects[name]
            self._names.remove(name)
        for waited, done in self._waiting:
            waited.discard(record)
            if not waited and not done.done():
                done.set_result(None)

    def any(self, objects: Objects) -> bool:
        """Returns whether a write of one of these objects is pending."""
        return any(True for _ in self._pending_of(objects))

    async def wait_settled(self, objects: Objects) -> None:
        """Waits until the writes that are pending now of these objects are settled."""
        if not self._objects:
            return
        records = {_LOOKING}
        waiter = (records, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)  # now: a write may be settled while others are looked at
        try:
            names = list(self._objects) if callable(objects) else objects
            for number, name in enumerate(names, 1):
                if number % NAMES == 0:
                    await asyncio.sleep(0)
                if not callable(objects) or objects(name):
                    records.update(each.record for each in self._objects.get(name, ()))
            records.discard(_LOOKING)
            if records:
                await waiter[1]
        finally:
            self._waiting.remove(waiter)

    @asynccontextmanager
    async def bounded_read(self) -> AsyncGenerator[None]:
        """A context in which a read waits for pending writes as long as one does. Raises WritesPending."""
        try:
            async with asyncio.timeout(self.read_seconds):
                yield
        except TimeoutError:
            raise WritesPending("writes that it has to come after are not at the origin yet") from None

    async def wait_for_read(self, name: ObjectName) -> None:
        """Waits until the writes that are pending now of an object are settled, as long as a read does. Raises
        Throttled."""
        async with self.bounded_read():
            await self.wait_settled((name,))

    def _pending_of(self, objects: Objects) -> Iterator[ObjectName]:
        return (
            (name for name in self._objects if objects(name))
            if callable(objects)
            else filter(self.__contains__, objects)
        )

    def head(self, name: ObjectName) -> Head | Deleted | None:
        """Returns the head that readers see; None: no write is pending, so the origin's."""
        versions = self._objects.get(name)
        return None if versions is None else versions[-1].head or DELETED

    def current(self, name: ObjectName) -> PendingVersion | None:
        """Returns the last pending write of the object."""
        versions = self._objects.get(name)
        return None if versions is None else versions[-1]

    def versions(self, name: ObjectName) -> Sequence[PendingVersion]:
        """Returns the pending writes of the object, as they were written."""
        return self._objects.get(name, ())

    def find(self, name: ObjectName, record: RecordId) -> PendingVersion | None:
        """Returns the write of the object that has this record; None: it is not pending."""
        return next((each for each in self._objects.get(name, ()) if each.record == record), None)

    def listed(self, bucket: str, prefix: str, after: str = "") -> Iterator[tuple[str, Head | None]]:
        """Yields the keys of pending objects under a prefix and behind a key, in their order, with the head that
        readers see. Nothing may be added or removed meanwhile."""
        if prefix > after and (head := self.head(ObjectName(bucket, prefix))) is not None:
            yield prefix, None if isinstance(head, Deleted) else head
        for name in self._names.behind(ObjectName(bucket, max(prefix, after))):
            if name.bucket != bucket or not name.key.startswith(prefix):
                break
            yield name.key, self._objects[name][-1].head

    def has(self, block: BlockId) -> bool:
        """Returns whether the bytes of a block are here."""
        return self._version_of(block) is not None

    async def read(self, block: BlockId, within: Span) -> Buffer | None:
        """Returns bytes `within` a block; None: it is not of a pending version. Raises OSError, BodyDamaged."""
        version = self._version_of(block)
        if version is None or version.head is None:
            return None
        start = block.number * version.head.block_size + within.start
        return await self.read_version(block.object, version, Span(start, start + within.length))

    async def read_version(self, name: ObjectName, version: PendingVersion, within: Span) -> Buffer:
        """Returns bytes of a version of the object. Raises OSError, BodyDamaged."""
        try:
            return await self.read_parts(version.parts, within)
        except (OSError, BodyDamaged) as error:
            if self.find(name, version.record) is not None:  # else the origin has it, and its body was removed
                self._note_damage(version.record, name, error)
            raise

    async def check(self, name: ObjectName) -> None:
        """Reads the pending writes of the object, each once for all callers; `damage_of` has the result."""
        for version in [each for each in self._objects.get(name, ()) if each.record not in self._checked]:
            self._checked.add(version.record)
            size = version.head.size if version.head is not None else 0
            for start in range(0, size, _CHECKED_SIZE):
                if self.find(name, version.record) is None:
                    break
                try:
                    await self.read_version(name, version, Span(start, min(start + _CHECKED_SIZE, size)))
                except (OSError, BodyDamaged):
                    break

    def damage_of(self, name: ObjectName) -> str | None:
        """Returns the reason why bytes of a pending write of the object could not be read; None: no read of them has
        failed."""
        found = (self._damages.get(version.record) for version in self._objects.get(name, ()))
        return next((damage for damage in found if damage is not None), None)

    def damage(self, name: ObjectName, generation: Generation) -> str | None:
        """Returns the reason why bytes of a pending version could not be read; None: no read of them has failed."""
        version = self._version_of(BlockId(name, generation, 0))
        return self._damages.get(version.record) if version is not None else None

    def _note_damage(self, record: RecordId, name: ObjectName, error: OSError | BodyDamaged) -> None:
        reason = error.strerror or "an error" if isinstance(error, OSError) else str(error)
        if record not in self._damages:
            _log.error("%s is not at the origin yet, and can't be read from the journal: %s", name.path, reason)
        self._damages[record] = reason

    async def read_parts(self, parts: Sequence[BodyPart], within: Span) -> Buffer:
        """Returns bytes of the object that these parts make together. Raises OSError, BodyDamaged."""
        pieces: list[Buffer | bytes] = []
        ends = list(accumulate(part.size for part in parts))
        for part, end in zip(parts, ends, strict=True):
            start = end - part.size
            span = Span(max(within.start, start) - start, min(within.stop, end) - start)
            if span.start >= span.stop:
                continue
            if part.file is None:
                pieces.append(memoryview(part.content)[span.start : span.stop])
            else:
                pieces.append(await self._read_body(part.file, span))
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces)).toreadonly()

    def _version_of(self, block: BlockId) -> PendingVersion | None:
        versions: Sequence[PendingVersion] = self._objects.get(block.object, ())
        for version in reversed(versions):
            if version.head is not None and version.head.generation == block.generation:
                return version
        return None
