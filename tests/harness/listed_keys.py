"""An origin's listing in memory, for tests of walks and pages; and the files of snapshots, which have no names."""

import asyncio
import os
from bisect import bisect_right
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from forebay.core.errors import OriginBroken
from forebay.core.fences import Tick
from forebay.namespace.origin_pages import PageRequest
from forebay.namespace.snapshot import Snapshot
from forebay.namespace.snapshot_file import SnapshotFile
from forebay.protocol.xml.listed_page import ListedEntries, ListingForm


def facts_of(key: str) -> str:
    return f"<LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;{key}&quot;</ETag><Size>1</Size>"


def damage_snapshots(directory: Path, position: int = 20) -> int:
    """Changes a byte of each snapshot's file below `directory`. Returns how many there are."""
    damaged = 0
    for each in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):
            if str(each.readlink()).startswith(str(directory)) and str(each.readlink()).endswith("(deleted)"):
                descriptor = int(each.name)
                at = position % os.fstat(descriptor).st_size
                byte = os.pread(descriptor, 1, at)
                os.pwrite(descriptor, bytes([byte[0] ^ 0x55]), at)
                damaged += 1
    return damaged


def names_in(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


class ListedKeys:
    """Implements namespace.snapshot_walk.PageSource. `requests`: (prefix, after, limit) of each."""

    def __init__(self, keys: Iterable[str], page: int = 1000) -> None:
        self.keys = sorted(keys)
        self.page = page
        self.requests: list[tuple[str, str, int]] = []
        self.most_at_once = 0
        self.awaited: list[bool] = []
        """Of each request, whether a client waited for it."""
        self.fails_behind: str | None = None
        """A page that begins at this key, or behind it, is refused."""
        self._at_once = 0

    async def fetch(self, wanted: PageRequest, _form: ListingForm, *, is_awaited: bool = True) -> ListedEntries:
        _, prefix, after, limit, _ = wanted
        self.awaited.append(is_awaited)
        self.requests.append((prefix, after, limit))
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        await asyncio.sleep(0)
        self._at_once -= 1
        if self.fails_behind is not None and after >= self.fails_behind:
            raise OriginBroken("listing refused: AccessDenied")
        behind = [key for key in self.keys[bisect_right(self.keys, after) :] if key.startswith(prefix)]
        keys = behind[: min(limit, self.page)]
        return ListedEntries(keys, [facts_of(key) for key in keys], len(behind) > len(keys), str(min(limit, 1000)))


def snapshot_in(directory: Path, prefix: str = "", capacity: int = 1 << 30) -> Snapshot:
    return Snapshot("bucket", prefix, SnapshotFile(directory, capacity), ListingForm(), 0.0, Tick(0))
