"""The catalogue of packs: for each bucket and pattern in the rules, the view that readers look keys up in.

    view ──> young enough ──────────────────────────────> used; from half of its age on the next one is begun
        └──> none, or too old, or outrun by writes ──> refresh, which all readers wait for

    refresh    list tombstones and indexes ──> fetch those that are new ──> list the objects under their prefixes:
               which keys are objects that differ from the member?

So a look-up of a key costs no request, and an object that was written around Forebay is found within the freshness of
the rule. A write through Forebay is known by its fence. Reads that began under an older view keep its indexes until
they end; shards are never written twice under one name.

An index that is damaged or can't be read fails the refresh: its members must not look as if they did not exist
(core.errors.PackUnavailable). Each worker has its own views.

A tombstone that this node writes is announced to all workers (`hide`), for their current views and for the refresh
under way. If its writer died before, or does not know whether the origin has it, the workers list the tombstones at the
origin (`look_for_tombstones`). Other nodes find it with their next refresh.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from forebay.core.errors import ForebayError, MalformedPack, OriginError, PackUnavailable, S3Error
from forebay.core.events import Observe, PacksRefreshed
from forebay.core.fences import Fences
from forebay.core.names import ObjectName
from forebay.core.requester import requester
from forebay.core.task_registry import TaskRegistry
from forebay.namespace.origin_pages import OriginPages, listed_objects
from forebay.namespace.packs.index_file import IndexFile, fetch_index
from forebay.namespace.packs.pack_view import PackView
from forebay.namespace.packs.tombstone_store import LISTED_AGAIN, TombstonesReplaced, TombstoneStore
from forebay.origin.reads.object_reads import ObjectReads
from forebay.policy.path_patterns import Pattern, literal_prefix
from forebay.protocol.packs.pack_index import INDEX_SUFFIX
from forebay.protocol.packs.tombstones import Tombstone, index_key_of
from forebay.settings.freshness_values import Immutable, MaxAge
from forebay.storage.private_directory import temporary_directory

RETRY_PAUSE: Final = 5.0
"""Seconds after a failed refresh in which readers get the same error."""
MERGED_FROM: Final = 64
"""An index with more objects of tombstones gets one in their place."""

_log = logging.getLogger(__name__)


class _Known:
    """The view and the refresh of one pattern in one bucket."""

    def __init__(self) -> None:
        self.view: PackView | None = None
        self.task: asyncio.Task[None] | None = None
        self.problem = ""
        """Why the latest refresh failed; empty: it did not."""
        self.failed_at = 0.0
        self.hidden: list[tuple[str, Tombstone]] = []
        """Indexes and tombstones that were announced during a refresh, which may have listed too early to see them."""


class PackCatalogue:
    """The views of one worker. Implements write.invalidation.Joinable."""

    def __init__(
        self,
        pages: OriginPages,
        reads: ObjectReads,
        fences: Fences,
        tasks: TaskRegistry,
        observe: Observe,
        clock: Callable[[], float],
        directory: Path | None,
        tombstones: TombstoneStore,
    ) -> None:
        """`directory`: of the copies of indexes, None for the system's temporary one."""
        self._pages = pages
        self._reads = reads
        self._tombstones = tombstones
        self._fences = fences
        self._tasks = tasks
        self._observe = observe
        self._clock = clock
        self.directory = temporary_directory() if directory is None else directory
        """The directory of the copies of indexes."""
        self._known: dict[tuple[str, str], _Known] = {}

    async def view(self, bucket: str, packed: str, freshness: MaxAge | Immutable) -> PackView:
        """Returns the packs of a bucket whose indexes match `packed`. Raises PackUnavailable."""
        known = self._known.get((bucket, packed))
        if known is None:
            known = self._known[bucket, packed] = _Known()
        view = known.view
        if view is None or self._is_old(view, freshness, 1.0) or view.is_outrun:
            if known.problem and 0.0 <= self._clock() - known.failed_at < RETRY_PAUSE:
                raise PackUnavailable(known.problem)
            await asyncio.wait([self._refresh_soon(bucket, packed, known)])
            if known.view is None or known.problem:
                raise PackUnavailable(known.problem or "the packs are not known")
            return known.view
        if known.task is None and self._is_old(view, freshness, 0.5):
            self._refresh_soon(bucket, packed, known)
        return view

    def view_nowait(self, bucket: str, packed: str, freshness: MaxAge | Immutable) -> PackView | None:
        """Returns the same view if it is there and no refresh has to begin; None otherwise."""
        known = self._known.get((bucket, packed))
        view = known.view if known is not None else None
        if known is None or view is None or view.is_outrun or self._is_old(view, freshness, 1.0):
            return None
        return view if known.task is not None or not self._is_old(view, freshness, 0.5) else None

    def is_current(self, view: PackView) -> bool:
        """Returns whether new readers still get this view."""
        return any(known.view is view for known in self._known.values())

    async def hide(self, bucket: str, hidden: Sequence[tuple[str, Tombstone]]) -> None:
        """Hides members, each with the key of its index: their tombstones are at the origin. Raises StorageError."""
        for key, known in list(self._known.items()):
            if key[0] != bucket:
                continue
            if known.task is not None:
                known.hidden += hidden
            for file in known.view.indexes if known.view is not None else ():
                await file.hide(sorted(tombstone for index_key, tombstone in hidden if index_key == file.name.key))

    async def look_for_tombstones(self, bucket: str, keys: Iterable[str]) -> None:
        """Lists the tombstones at the origin of each index that may have one of these keys, and hides their members.
        Raises OriginError, S3Error, Throttled, StorageError."""
        named = list(keys)
        for view in [known.view for key, known in self._known.items() if key[0] == bucket and known.view is not None]:
            for file in view.indexes:
                if any(file.covers(key) for key in named):
                    found, tombstones = await self._tombstones.find(bucket, file.name.key, file.applied)
                    await _apply(file, found, tombstones)

    def views(self) -> Iterable[PackView]:
        """Returns all current views."""
        return [known.view for known in self._known.values() if known.view is not None]

    def fence(self, name: ObjectName) -> None:
        """Records a write of `name`: if it is an index, no later reader uses a view that contains it."""
        if name.key.endswith(INDEX_SUFFIX):
            self.drop(name.bucket)

    def fence_bucket(self, bucket: str) -> None:
        """Records a write of a whole bucket."""
        self.drop(bucket)

    def drop(self, bucket: str) -> None:
        """Drops the views of a bucket. A refresh under way serves its present waiters only."""
        for key in [key for key in self._known if key[0] == bucket]:
            del self._known[key]

    def _is_old(self, view: PackView, freshness: MaxAge | Immutable, share: float) -> bool:
        age = self._clock() - view.taken_at
        return age < -1.0 or (isinstance(freshness, MaxAge) and age >= freshness.seconds * share)

    def _refresh_soon(self, bucket: str, packed: str, known: _Known) -> asyncio.Task[None]:
        if known.task is None:
            known.task = self._tasks.spawn(self._refresh(bucket, packed, known), f"packs of {bucket}/{packed}")
        return known.task

    async def _refresh(self, bucket: str, packed: str, known: _Known) -> None:
        requester.set("")
        try:
            known.view = await self._read_view(bucket, packed, known)
            known.problem = ""
            self._observe(PacksRefreshed("complete"))
        except ForebayError as failure:
            known.problem = failure.reason if isinstance(failure, OriginError) else str(failure)
            known.failed_at = self._clock()
            self._observe(PacksRefreshed("failed"))
            _log.warning("the packs %s/%s can't be read: %s", bucket, packed, known.problem)
        finally:
            known.task = None
            known.hidden.clear()

    async def _read_view(self, bucket: str, packed: str, known: _Known) -> PackView:
        """Returns a view of the packs as the origin has them now. Raises ForebayError."""
        since, at = self._fences.now(), self._clock()
        for attempt in range(LISTED_AGAIN + 1):
            try:
                files = await self._indexes(bucket, packed, known.view)
                break
            except TombstonesReplaced:  # between the listing and the look into them
                if attempt == LISTED_AGAIN:
                    raise
        shadowed: set[str] = set()
        draft = PackView(bucket, files, frozenset(), self._fences, since, at)
        prefixes = sorted({prefix for file in files for prefix in file.index.description.prefixes})
        for prefix in _outermost(prefixes):
            async for listed in listed_objects(self._pages, bucket, prefix):
                found = await draft.find(listed.key)
                if found is not None and (found.member.etag, found.member.size, found.member.modified) != (
                    listed.etag,
                    listed.size,
                    int(listed.last_modified),
                ):
                    shadowed.add(listed.key)
        while known.hidden:
            hidden, known.hidden = known.hidden, []
            for file in files:
                await file.hide(sorted(tombstone for index_key, tombstone in hidden if index_key == file.name.key))
        return PackView(bucket, files, frozenset(shadowed), self._fences, since, at)

    async def _indexes(self, bucket: str, packed: str, old: PackView | None) -> list[IndexFile]:
        """Returns the indexes at the origin, with the members hidden that have tombstones."""
        pattern, have = Pattern(packed), {each.name.key: each for each in (old.indexes if old is not None else ())}
        files: list[IndexFile] = []
        tombstones: defaultdict[str, list[str]] = defaultdict(list)
        async for key, _, etag, _ in listed_objects(self._pages, bucket, _listed_prefix(packed)):
            if (index_key := index_key_of(key)) is not None:
                tombstones[index_key].append(key)
            elif key.endswith(INDEX_SUFFIX) and pattern.matches(key):
                file = have.get(key)
                files.append(file if file is not None and file.etag == etag else await self._fetched(bucket, key))
        for file in files:
            keys = tombstones[file.name.key]
            new = [key for key in keys if key not in file.applied]
            await _apply(file, keys, await self._tombstones.read(bucket, new))
            if len(keys) > MERGED_FROM:
                self._merge_soon(bucket, file.name.key, keys)
        return files

    def _merge_soon(self, bucket: str, index_key: str, keys: Sequence[str]) -> None:
        async def merge() -> None:
            try:
                await self._tombstones.merge(bucket, index_key, keys)
            except ForebayError as failure:  # others have merged them, or the next refresh does
                _log.info("the tombstones of %s/%s are not merged: %s", bucket, index_key, failure)

        self._tasks.spawn(merge(), f"tombstones of {bucket}/{index_key}")

    async def _fetched(self, bucket: str, key: str) -> IndexFile:
        name = ObjectName(bucket, key)
        try:
            file = await fetch_index(self._reads, name, self.directory)
        except MalformedPack as refused:
            raise PackUnavailable(f"the index {name.path} is refused: {refused}") from None
        except S3Error as refused:
            raise PackUnavailable(f"the index {name.path}: {refused}") from None
        _log.info("%s: members %d, shards %d", name.path, len(file.index), len(file.shards))
        return file


async def _apply(file: IndexFile, keys: Iterable[str], new: Sequence[Tombstone]) -> None:
    """Hides the members that the `new` tombstones name, and records the objects under `keys` as applied."""
    await file.hide(new)
    file.applied = set(keys)


def _listed_prefix(packed: str) -> str:
    """Returns the common prefix of the keys of indexes that match a pattern, and of their tombstones."""
    literal = literal_prefix(packed)
    folder, slash, name = literal.rpartition("/")
    return folder + slash + name.partition(".")[0]


def _outermost(prefixes: list[str]) -> list[str]:
    """Returns the prefixes, of a sorted list, that do not begin with another one."""
    kept: list[str] = []
    for prefix in prefixes:
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept
