"""The records of jobs on the disk, so that a job goes on after a restart.

    <state directory>/jobs-<fingerprint of the origin>/<id of the job>/

        lock            flock'ed by the process that runs the job, or shows how it ended
        record.json     the job as it was lately: the order, counts, position. Replaced as a whole
        inventory       its objects, once all are listed: pages of state.inventory, each behind its length (4 bytes).
                        Replaced as a whole
        failures.jsonl  a failure a line, in the order of the inventory, appended before the record that counts it

A worker claims the records whose lock is free: at its start those of the run before, later those of a worker that has
ended. If a record can't be written or read, the job goes on in memory, and does not survive the process. A record that
can't be parsed (another version's, damaged) is removed. Everything is on the disk before a caller goes on.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from forebay.jobs.state.inventory import Inventory
from forebay.jobs.state.job_progress import WarmUpFailure
from forebay.storage.durable_files import make_directory, replace_file, sync_directory

VERSION: Final = 1
MAX_REPORTED: Final = 1_000_000
"""Failures kept of one job."""
_LENGTH_BYTES: Final = 4
_NEW: Final = "."
"""The prefix of a directory that is not locked yet: another worker would take it for one left behind."""

_log = logging.getLogger(__name__)


class JobRecord:
    """The directory of one job, locked by this process. No method raises: see the module."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock
        self._failures = 0
        """Failures in the file."""
        self.is_usable = True
        """Whether everything could be written so far."""

    def save(self, document: Mapping[str, Any]) -> None:
        """Replaces the record."""
        content = json.dumps({"version": VERSION, "failures": self._failures, **document}).encode()
        self._try("record", lambda: replace_file(self.path / "record.json", content))

    def load(self) -> dict[str, Any] | None:
        """Returns the record; None: there is none that can be parsed. Raises OSError if it can't be read."""
        try:
            document = json.loads((self.path / "record.json").read_bytes())
            self._failures = int(document["failures"])
            return dict(document) if document["version"] == VERSION else None
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def save_inventory(self, inventory: Inventory) -> None:
        """Writes the inventory, before the record that counts on it."""
        self._try("inventory", lambda: self._write_inventory(inventory))

    def _write_inventory(self, inventory: Inventory) -> None:
        new = self.path / "inventory.new"
        with new.open("wb") as file:
            for page in inventory.compressed_pages():
                file.write(len(page).to_bytes(_LENGTH_BYTES, "big") + page)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / "inventory")
        sync_directory(self.path)

    def load_inventory(self) -> Inventory | None:
        """Returns the inventory; None: there is none, or it is damaged."""
        try:
            with (self.path / "inventory").open("rb") as file:
                return Inventory.of_compressed(_pages(file.read))
        except (OSError, ValueError, TypeError, zlib.error):
            return None

    def add_failures(self, failures: Sequence[WarmUpFailure]) -> None:
        """Appends failures to the report."""
        kept = failures[: max(0, MAX_REPORTED - self._failures)]
        if not kept:
            return
        self._failures += len(kept)
        self._try("report", lambda: _append(self.path / "failures.jsonl", _lines(kept)))

    def failures(self, start: int, limit: int) -> list[WarmUpFailure]:
        """Returns failures of the report, from number `start` on."""
        found: list[WarmUpFailure] = []
        with contextlib.suppress(OSError, ValueError, TypeError), (self.path / "failures.jsonl").open("rb") as lines:
            for number, line in enumerate(lines):
                if number >= min(start + limit, self._failures):
                    break
                if number >= start:
                    found.append(WarmUpFailure(**json.loads(line)))
        return found

    def drop_later_failures(self) -> None:
        """Drops the failures behind the record's position: the job goes on there, and counts them again."""
        kept = self.failures(0, self._failures)
        self._failures = len(kept)
        self._try("report", lambda: replace_file(self.path / "failures.jsonl", _lines(kept)))

    def drop_inventory(self) -> None:
        """Removes the inventory: the job has ended."""
        self._try("inventory", lambda: (self.path / "inventory").unlink(missing_ok=True))

    def remove(self) -> None:
        """Removes everything."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.close()

    def close(self) -> None:
        """Unlocks the record, so that another process may claim it."""
        os.close(self._lock)

    def _try(self, part: str, write: Any) -> None:
        try:
            write()
        except OSError as error:
            if self.is_usable:
                _log.warning("warm-up job %s: its %s can't be written: %s", self.path.name, part, error.strerror)
            self.is_usable = False


class JobStore:
    """The records of the jobs of one origin, under `directory`, which need not exist."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._claimed: dict[str, JobRecord] = {}

    def create(self, job_id: str) -> JobRecord | None:
        """Makes the record of a new job; None: it can't be kept."""
        new = self._directory / f"{_NEW}{job_id}"
        try:
            make_directory(self._directory)
            new.mkdir(mode=0o700)
            record = self._claim(job_id, new)
            try:
                sync_directory(self._directory)
            except OSError:
                self.remove(record)
                raise
            return record
        except OSError as error:
            _log.warning("warm-up job %s has no record, and ends with this process: %s", job_id, error)
            return None

    def claim_all(self) -> list[JobRecord]:
        """Claims every record that no process has."""
        try:
            names = sorted(each.name for each in self._directory.iterdir() if each.name not in self._claimed)
        except OSError:
            return []
        claimed: list[JobRecord] = []
        for job_id in [name for name in names if not name.startswith(_NEW)]:
            with contextlib.suppress(OSError):
                claimed.append(self._claim(job_id, self._directory / job_id))
        return claimed

    def _claim(self, job_id: str, found: Path) -> JobRecord:
        path = self._directory / job_id
        lock = os.open(found / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if found != path:
                found.rename(path)
        except OSError:
            os.close(lock)
            raise
        record = self._claimed[job_id] = JobRecord(path, lock)
        return record

    def remove(self, record: JobRecord) -> None:
        """Removes a record."""
        self._claimed.pop(record.path.name, None)
        record.remove()

    def close(self) -> None:
        """Unlocks all records, so that other processes may claim them."""
        for record in self._claimed.values():
            record.close()
        self._claimed.clear()


def _lines(failures: Sequence[WarmUpFailure]) -> bytes:
    return "".join(json.dumps(each._asdict()) + "\n" for each in failures).encode()


def _append(path: Path, content: bytes) -> None:
    is_new = not path.exists()
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    if is_new:
        sync_directory(path.parent)


def _pages(read: Any) -> Iterator[bytes]:
    while length := read(_LENGTH_BYTES):
        page = read(int.from_bytes(length, "big"))
        if len(length) < _LENGTH_BYTES or len(page) < int.from_bytes(length, "big"):
            raise ValueError("the inventory is cut short")
        yield page
