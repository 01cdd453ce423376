"""The namespaces of a worker: for each the snapshot that answers, and the walk that takes the next one.

The table is bounded: beyond MAX_NAMESPACES, or half of the room for snapshots (the other half is for the one that is
being taken), the namespaces that were listed longest ago are dropped.

A write through Forebay marks its key in every snapshot of its namespace, and in those of the walks (`fence`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from forebay.core.names import ObjectName
from forebay.namespace.snapshot import Snapshot
from forebay.namespace.snapshot_file import SnapshotFile
from forebay.namespace.snapshot_walk import SnapshotWalk
from forebay.protocol.xml.listed_page import ListingForm
from forebay.storage.private_directory import temporary_directory

MAX_NAMESPACES: Final = 64


class NamespaceState(NamedTuple):
    """A namespace, for people and metrics."""

    bucket: str
    prefix: str
    keys: int
    """The number of keys in the snapshot that answers, or in the one under way if there is none."""
    size: int
    """Bytes on disk."""
    age: float | None
    """Seconds; None: no snapshot answers yet."""
    written: int
    """Keys that were written since."""
    is_walking: bool


@dataclass(slots=True, eq=False)
class Namespace:
    """The keys of `bucket` under `prefix`."""

    bucket: str
    prefix: str
    form: ListingForm = field(default_factory=ListingForm)
    """The common fields of its pages. All its snapshots share them, so that their entries can be compared."""
    snapshot: Snapshot | None = None
    """The latest that is complete."""
    walk: SnapshotWalk | None = None
    failed_at: float | None = None
    """The time at which the latest walk failed, in seconds since the epoch."""

    @property
    def snapshots(self) -> list[Snapshot]:
        """The complete one, and the one under way."""
        snapshots = [self.snapshot] if self.snapshot is not None else []
        return snapshots if self.walk is None else [*snapshots, self.walk.snapshot]

    def give_up_walk(self) -> None:
        """Ends the walk under way, and wakes its waiters."""
        walk, self.walk = self.walk, None
        if walk is not None:
            walk.end()

    def state(self, now: float) -> NamespaceState:
        """The state at `now`, in seconds since the epoch."""
        latest = self.snapshots[0] if self.snapshots else None
        return NamespaceState(
            self.bucket,
            self.prefix,
            latest.keys if latest is not None else 0,
            sum(each.file.size for each in self.snapshots),
            now - self.snapshot.started_at if self.snapshot is not None else None,
            len(latest.overlay) if latest is not None else 0,
            self.walk is not None,
        )


class Namespaces:
    """The table, the least recently used first."""

    def __init__(self, directory: Path | None, capacity: int) -> None:
        """`directory`: of the snapshots' files, None for the system's temporary one. `capacity`: bytes of all of
        them."""
        self._directory = temporary_directory() if directory is None else directory
        self._capacity = capacity
        self._table: dict[tuple[str, str], Namespace] = {}

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Namespace]:
        return iter(list(self._table.values()))

    def __contains__(self, namespace: Namespace) -> bool:
        return self.find(namespace.bucket, namespace.prefix) is namespace

    def find(self, bucket: str, prefix: str) -> Namespace | None:
        """The namespace, if there is one."""
        return self._table.get((bucket, prefix))

    def use(self, bucket: str, prefix: str) -> Namespace:
        """The namespace, made if there is none, as the most recently used."""
        namespace = self._table.pop((bucket, prefix), None) or Namespace(bucket, prefix)
        self._table[bucket, prefix] = namespace
        return namespace

    def drop(self, namespace: Namespace) -> None:
        """Drops a namespace, its snapshot and its walk."""
        if namespace in self:
            del self._table[namespace.bucket, namespace.prefix]
        namespace.give_up_walk()
        namespace.snapshot = None

    def drop_under(self, bucket: str, prefix: str) -> None:
        """Drops those with keys under a prefix."""
        for namespace in self:
            overlaps = namespace.prefix.startswith(prefix) or prefix.startswith(namespace.prefix)
            if namespace.bucket == bucket and overlaps:
                self.drop(namespace)

    def new_file(self) -> SnapshotFile:
        """Creates the file of a new snapshot of the most recently used namespace; drops other namespaces to make room.
        Raises StorageError."""
        while len(self) > 1 and (len(self) > MAX_NAMESPACES or self.size > self._capacity // 2):
            self.drop(next(iter(self)))
        return SnapshotFile(self._directory, self._capacity // 2)

    def fence(self, name: ObjectName) -> None:
        """Marks a key as written in every snapshot that may show it."""
        for namespace in self._table.values():
            if namespace.bucket == name.bucket and name.key and name.key.startswith(namespace.prefix):
                for snapshot in namespace.snapshots:
                    snapshot.overlay.mark(name.key)

    @property
    def size(self) -> int:
        """Bytes of all snapshots."""
        return sum(snapshot.file.size for each in self._table.values() for snapshot in each.snapshots)
