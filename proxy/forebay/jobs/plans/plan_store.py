"""The plan store: plans and key lists on the node's disk, in a directory that its workers share.

    <state_dir>/plans-<origin, address>/    <id>/            a plan: its entries (jobs.plans.plan_entries), plan.json,
                                                             order (jobs.plans.plan_files)
                                            <id>/position    the reader's: CRC-32 of the line behind it; numbers of
                                                             entries, the first that is unread, the one behind the
                                                             furthest that was read, those between that are unread
                                            keys-<id>/       a key list (jobs.plans.plan_key_lists)
                                            new-<random>/    one that is being received
                                            .lock            held while a plan is exchanged, read or removed

Whichever worker receives a plan writes it, and renames the directory when the body was verified to its end. So a plan
is there whole or not at all, and survives a restart. An `id` is made of bucket, principal and name: another plan of
that name replaces it, under a lock of the directory, and the end of the older one leaves it alone.
"""

import asyncio
import json
import logging
import os
import secrets
import shutil
import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from forebay.core.buffers import Piece
from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import S3Error, Throttled
from forebay.jobs.plans.plan_body import HEADER_SIZE, MAGIC, CompactPlan, ReadableKeys, TextPlan, read_header
from forebay.jobs.plans.plan_entries import KeyTable, PlanEntries
from forebay.jobs.plans.plan_files import PlanFiles, locked_plans, order_of, remove_abandoned
from forebay.jobs.plans.plan_key_lists import PREFIX, PlanKeyLists, SentKeyList
from forebay.jobs.plans.plan_window import PlanStart
from forebay.policy.grants import Principal
from forebay.storage.durable_files import sync_directory
from forebay.storage.file_sums import boot_id, check_sums

_log = logging.getLogger(__name__)

_CHUNK: Final = 4096


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """The facts of a plan beside its entries."""

    id: str
    bucket: str
    principal: str
    name: str
    sent_at: float
    """Seconds since the epoch."""
    entries: int
    dropped: int
    """Keys that the sender might not read when the plan was sent; they are no entries."""
    keys: str = ""
    """The directory of the key list that its indices are of."""
    checksums: bool = False
    """Whether its readers are expected to want checksums."""
    recording: str = ""
    """The recording whose rest it is; such a plan is in no store."""
    version: str = ""
    """Differs from that of every other plan that was sent under the same id."""


class PlanStore:
    """Plans in `root`, which is made with the first of them. None: there is no state directory, and no plan."""

    def __init__(
        self,
        root: Path | None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        boot: str | None = None,
    ) -> None:
        """`clock`: seconds since the epoch. `monotonic`: seconds of a clock that nobody sets. `boot`: of the machine,
        where it is not this one."""
        self._boot = boot_id() if boot is None else boot
        self._is_usable = root is not None
        self._root = root if root is not None else Path(os.devnull, "plans")  # which nobody can make
        self.key_lists = PlanKeyLists(self._root, clock, monotonic, self._boot)

    def _receive(self) -> PlanFiles:
        if not self._is_usable:
            message = "Plans are kept in the state directory, and there is none: set server.state_dir."
            raise S3Error("NotImplemented", message)
        return PlanFiles(self._root, boot=self._boot)

    # Receiving

    async def receive(self, record: PlanRecord, principal: Principal, body: AsyncIterator[Piece]) -> PlanRecord:
        """Writes a plan that is being sent, in place of one with the same id. Returns its record. Raises S3Error."""
        async with self._receive() as files:
            pieces = aiter(body)
            first = await _first_bytes(pieces)
            plan: TextPlan | CompactPlan
            readable = ReadableKeys(principal, record.bucket)
            if first.startswith(MAGIC):
                plan, record = await self._compact(files, record, readable, first[:HEADER_SIZE])
                first = first[HEADER_SIZE:]
            else:
                plan = TextPlan(files.append, readable)
            await run_cooperatively(plan.feed(first))
            async for piece in pieces:
                await run_cooperatively(plan.feed(bytes(piece)))
                await files.flush_excess()
            plan.close()
            record = replace(record, entries=plan.entries, dropped=plan.dropped, version=secrets.token_hex(8))
            files.append("plan.json", json.dumps(asdict(record)).encode())
            await files.keep(record.id)
        return record

    async def _compact(
        self, files: PlanFiles, record: PlanRecord, readable: ReadableKeys, header: bytes
    ) -> tuple[CompactPlan, PlanRecord]:
        digest, count = read_header(header)
        found = await self.key_lists.open(record.bucket, record.principal, digest)
        if found is None:
            message = f"Line 1: the list of keys {digest} is not known here. PUT it as .forebay/plans/keys/{digest}."
            raise S3Error("InvalidArgument", message, Line="1")
        keys, table = found
        try:
            allowed = await _readable_numbers(table, readable)
            check = None if allowed is None else lambda numbers: [bool(allowed[number]) for number in numbers]
            return CompactPlan(files.append, count, table.count, check), replace(record, keys=keys)
        finally:
            table.close()

    async def receive_keys(self, bucket: str, principal: str, digest: str, body: AsyncIterator[Piece]) -> SentKeyList:
        """Writes a key list. Raises S3Error."""
        async with self._receive() as files:
            return await self.key_lists.receive(files, bucket, principal, digest, body)

    # Reading

    async def load(self, plan: str) -> tuple[PlanRecord, PlanEntries, PlanStart] | None:
        """A plan, its entries, and the position of its reader; None: it is not here, or damaged, and removed."""
        return await asyncio.to_thread(self._load, plan)

    def _load(self, plan: str) -> tuple[PlanRecord, PlanEntries, PlanStart] | None:
        directory = self._root / plan
        start = PlanStart()
        try:
            with locked_plans(self._root):
                try:
                    record, entries = self._open(directory)
                except (FileNotFoundError, ValueError, TypeError):
                    if directory.exists():  # under the lock: else it might be another one by now that is removed
                        _log.warning("a plan is damaged, and removed")
                        shutil.rmtree(directory, ignore_errors=True)
                    return None
                with suppress(OSError, ValueError):
                    crc, _, line = (directory / "position").read_bytes().partition(b" ")
                    base, front, *unread = map(int, line.split())
                    if int(crc) == zlib.crc32(line):
                        start = PlanStart(base, front, unread=frozenset(unread))
        except OSError:
            return None
        return record, entries, start

    def _open(self, directory: Path) -> tuple[PlanRecord, PlanEntries]:
        """Raises OSError, and ValueError and TypeError for a plan that is damaged."""
        check_sums(directory, self._boot)
        record = _record_in(directory)
        if record.keys:
            check_sums(self._root / record.keys, self._boot)
        entries = PlanEntries(directory, self._root / record.keys if record.keys else None)
        if entries.count != record.entries:
            entries.close()
            raise ValueError("entries are missing")
        return record, entries

    async def plans(self) -> Sequence[str]:
        """Returns the ids of all plans, in the order of their arrival. Removes unfinished plans and old key lists."""
        return await asyncio.to_thread(self._plans)

    def _plans(self) -> Sequence[str]:
        found: list[tuple[int, float, str]] = []
        remove_abandoned(self._root)
        with suppress(OSError):
            for directory in self._root.iterdir():
                if not directory.name.startswith((PREFIX, "new-", ".")):
                    try:
                        sent_at = float(json.loads((directory / "plan.json").read_bytes())["sent_at"])
                    except (OSError, ValueError, TypeError, KeyError):
                        sent_at = 0.0
                    found.append((order_of(directory), sent_at, directory.name))
        self.key_lists.prune()
        return [name for _, _, name in sorted(found)]

    async def record_position(self, record: PlanRecord, position: PlanStart) -> None:
        """Records the position of a plan's reader, unless another one has its id by now."""
        numbers = (position.position, position.front, *sorted(position.unread or ()))

        def write(directory: Path) -> None:
            new = directory / "position.new"
            line = " ".join(map(str, numbers)).encode()
            new.write_bytes(b"%d %b" % (zlib.crc32(line), line))
            new.replace(directory / "position")

        await asyncio.to_thread(self._change, record, write)

    async def remove(self, record: PlanRecord) -> None:
        """Removes a plan, unless another one has its id by now: it never comes back. Raises Throttled if the disk
        fails."""
        await asyncio.to_thread(self._remove, record.id, record.version)

    async def remove_any(self, plan: str) -> None:
        """Removes the plan with this id, also one that is received and not added yet: it never comes back. Raises
        Throttled if the disk fails."""
        await asyncio.to_thread(self._remove, plan, None)

    def _remove(self, plan: str, version: str | None) -> None:
        directory = self._root / plan
        try:
            with locked_plans(self._root):
                if version is not None and _record_in(directory).version != version:
                    return
                (directory / "plan.json").unlink(missing_ok=True)
                shutil.rmtree(directory, ignore_errors=True)
            sync_directory(self._root)
        except (FileNotFoundError, NotADirectoryError, ValueError, TypeError):
            return  # there is none
        except OSError as error:
            _log.warning("a plan can't be removed from %s: %s", self._root, error.strerror)
            raise Throttled(f"the plan can't be removed: {error.strerror}") from None

    def _change(self, record: PlanRecord, change: Callable[[Path], object]) -> None:
        """Changes the directory of a plan under the lock, unless another one has its id by now."""
        directory = self._root / record.id
        with suppress(OSError, ValueError, TypeError), locked_plans(self._root):
            if _record_in(directory).version == record.version:
                change(directory)


def _record_in(directory: Path) -> PlanRecord:
    """Raises OSError, ValueError, TypeError."""
    return PlanRecord(**json.loads((directory / "plan.json").read_bytes()))


async def _first_bytes(pieces: AsyncIterator[Piece]) -> bytes:
    """The start of a body: enough to tell its form and read a header."""
    first = b""
    while len(first) < HEADER_SIZE:
        piece = await anext(pieces, None)
        if piece is None:
            break
        first += bytes(piece)
    return first


async def _readable_numbers(table: KeyTable, readable: ReadableKeys) -> bytearray | None:
    """Returns a byte for each key of a list, 1 if it may be read; None: all may."""
    allowed: bytearray | None = None
    for start in range(0, table.count, _CHUNK):
        stop = min(start + _CHUNK, table.count)
        keys = await asyncio.to_thread(table.run, start, stop)
        if readable.allows_all(keys):
            continue
        if allowed is None:
            allowed = bytearray(b"\1") * table.count
        for nth, key in enumerate(keys):
            allowed[start + nth] = readable.allows(key)
            if nth % 256 == 255:
                await asyncio.sleep(0)
    return allowed
