"""The key lists that plans of the compact form number, in the directory of the plans.

    keys-<id>/    keys, offsets    (jobs.plans.plan_entries)
                  list.json        whose it is, and when it was sent

An `id` is made of bucket, principal and digest: no principal can use another's list, or learn whether it exists. A list
is removed once this process has seen no use of it for KEPT_SECONDS. Above MAX_UNUSED unused lists, the one that is
unused longest goes, of the principal that has the most, so that no principal displaces another's lists. Seconds are
those of the process, as the clock may be set: a use, in any worker, changes the directory's time, whatever its value.
"""

import asyncio
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from forebay.core.buffers import Piece
from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import S3Error
from forebay.jobs.plans.plan_body import TextPlan
from forebay.jobs.plans.plan_entries import KeyTable
from forebay.jobs.plans.plan_files import PlanFiles, plan_id
from forebay.storage.file_sums import check_sums

PREFIX: Final = "keys-"
"""The beginning of the names of the directories."""
MAX_UNUSED: Final = 64
KEPT_SECONDS: Final = 86400.0


class _Unused(NamedTuple):
    """A list that no plan uses."""

    since: float
    """Monotonic seconds."""
    changed: int
    """The time of its directory, in nanoseconds since the epoch."""
    directory: Path
    principal: str


@dataclass(frozen=True, slots=True)
class SentKeyList:
    """A key list that a client has sent."""

    bucket: str
    principal: str
    digest: str
    """SHA-256 of its body, in hexadecimal."""
    keys: int
    sent_at: float
    """Seconds since the epoch."""


class PlanKeyLists:
    """The lists below `root`. `clock`: seconds since the epoch."""

    def __init__(
        self,
        root: Path,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        boot: str = "",
    ) -> None:
        """`monotonic`: seconds of a clock that nobody sets. `boot`: of the machine (storage.file_sums)."""
        self._root = root
        self._boot = boot
        self._clock = clock
        self._monotonic = monotonic
        self._unused: dict[str, _Unused] = {}
        """The unused lists of the latest look, by the name of the directory."""

    async def receive(
        self, files: PlanFiles, bucket: str, principal: str, digest: str, body: AsyncIterator[Piece]
    ) -> SentKeyList:
        """Writes a list that is being sent into `files`. Raises S3Error."""
        plan, hashed = TextPlan(files.append, None), sha256()
        async for piece in body:
            hashed.update(piece)
            await run_cooperatively(plan.feed(bytes(piece)))
            await files.flush_excess()
        plan.close()
        if hashed.hexdigest() != digest:
            message = f"The list of keys has the SHA-256 {hashed.hexdigest()}, which must be its name."
            raise S3Error("InvalidArgument", message)
        found = SentKeyList(bucket, principal, digest, plan.entries, self._clock())
        files.append("list.json", json.dumps(asdict(found)).encode())
        directory = key_list_id(bucket, principal, digest)
        await files.keep(directory)

        def make_room() -> None:
            self._note_use(directory)
            self.prune(directory)

        await asyncio.to_thread(make_room)
        return found

    async def open(self, bucket: str, principal: str, digest: str) -> tuple[str, KeyTable] | None:
        """The directory of a list that is about to be used, and its keys, which the caller closes; None: it is not
        here."""
        directory = key_list_id(bucket, principal, digest)

        def use() -> KeyTable:
            check_sums(self._root / directory, self._boot)
            table = KeyTable(self._root / directory)
            self._note_use(directory)
            return table

        try:
            return directory, await asyncio.to_thread(use)
        except (OSError, ValueError):
            return None

    async def find(self, bucket: str, principal: str, digest: str) -> SentKeyList | None:
        """A list; None: it is not here."""
        return await asyncio.to_thread(self._read, self._root / key_list_id(bucket, principal, digest))

    async def of(self, bucket: str, principal: str) -> Sequence[SentKeyList]:
        """The lists of a principal in a bucket."""

        def read() -> list[SentKeyList]:
            self.prune()
            return [found for each in self._directories() if (found := self._read(each)) is not None]

        return [each for each in await asyncio.to_thread(read) if (each.bucket, each.principal) == (bucket, principal)]

    async def remove(self, bucket: str, principal: str, digest: str) -> None:
        """Removes a list, if there is one."""
        directory = self._root / key_list_id(bucket, principal, digest)
        await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)

    def _note_use(self, directory: str) -> None:
        now = self._clock()
        self._unused.pop(directory, None)
        with suppress(OSError):
            os.utime(self._root / directory, (now, now))

    def _directories(self) -> list[Path]:
        with suppress(OSError):
            return [each for each in self._root.iterdir() if each.name.startswith(PREFIX)]
        return []

    def _read(self, directory: Path) -> SentKeyList | None:
        try:
            return SentKeyList(**json.loads((directory / "list.json").read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def prune(self, latest: str = "") -> None:
        """Removes lists that no plan uses: those unused for long, and those above MAX_UNUSED, but not `latest`."""
        used, now = self._used(), self._monotonic()
        unused: list[_Unused] = []
        for directory in self._directories():
            if directory.name in used or directory.name == latest:
                continue
            found = self._read(directory)
            with suppress(OSError):
                changed, known = directory.stat().st_mtime_ns, self._unused.get(directory.name)
                since = known.since if known is not None and known.changed == changed else now
                if found is None or now - since > KEPT_SECONDS:
                    shutil.rmtree(directory, ignore_errors=True)
                else:
                    unused.append(_Unused(since, changed, directory, found.principal))
        while len(unused) + bool(latest) > MAX_UNUSED:
            (principal, _), *_ = Counter(each.principal for each in unused).most_common(1)
            oldest = min(each for each in unused if each.principal == principal)
            unused.remove(oldest)
            shutil.rmtree(oldest.directory, ignore_errors=True)
        self._unused = {each.directory.name: each for each in unused}

    def _used(self) -> set[str]:
        """The directories of lists that plans use."""
        used = set[str]()
        with suppress(OSError):
            for directory in self._root.iterdir():
                if not directory.name.startswith((PREFIX, "new-")):
                    with suppress(OSError, ValueError, KeyError):
                        used.add(json.loads((directory / "plan.json").read_bytes())["keys"])
        return used


def key_list_id(bucket: str, principal: str, digest: str) -> str:
    """The directory of a key list."""
    return f"{PREFIX}{plan_id(bucket, principal, digest)}"
