"""The check of a journal without a running Forebay: every record and every body is verified, and can be exported.

    scan ──> damage in the logs, named ──┐
      └────> pending writes ──verified──> whole, or what is damaged of each ──> exported: a file each, and a manifest

Blocking, and reads only: the journal stays as it is.
"""

import errno
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from forebay.core.byte_ranges import Span
from forebay.core.errors import StorageError
from forebay.core.heads import HeaderPairs
from forebay.core.names import ObjectName
from forebay.storage.journal.body_file import SLICE, BodyDamaged, BodyReader
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import BODY, VERSION, JournalLayout, read_version
from forebay.storage.journal.journal_reclaim import bodies_of
from forebay.storage.journal.journal_record import LogDamage, TornEnd
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart
from forebay.storage.journal.recovery_scan import scan_journal
from forebay.write.back.pending.accepted_write import (
    AcceptedPart,
    AcceptedWrite,
    JournalEntry,
    MovedUpload,
    body_parts,
    decode_record,
)

MANIFEST: Final = "manifest.jsonl"


class NoJournal(StorageError):
    """A directory can't be checked; the message is a sentence."""


@dataclass(slots=True)
class CheckedWrite:
    """A pending write. `parts`: its bytes; `damage`: why they can't be read, empty if they can."""

    record: RecordId
    write: AcceptedWrite
    parts: tuple[BodyPart, ...]
    damage: str = ""
    part_headers: tuple[HeaderPairs, ...] = ()
    """The headers of each part of a completed upload, as its client sent it."""


@dataclass(slots=True)
class JournalReport:
    """The content of a journal."""

    writes: list[CheckedWrite] = field(default_factory=list)
    """The writes, in the order in which they were acknowledged."""
    unfinished_parts: int = 0
    """Parts of uploads that were not completed."""
    damaged_parts: list[tuple[ObjectName, int, str]] = field(default_factory=list)
    """The parts that can't be read: object, part number, and why. Their clients can send them once more."""
    log_damages: list[tuple[str, LogDamage]] = field(default_factory=list)
    """Bytes that were durable once and hold no record, by the id of the log. Their content is not known."""
    torn: list[tuple[str, TornEnd]] = field(default_factory=list)
    """The bytes behind the last record, which were never acknowledged, or are damaged, by the id of the log."""
    unreadable: list[RecordId] = field(default_factory=list)
    """Records that no Forebay of this version wrote."""
    is_format_damaged: bool = False
    """Whether the version of the layout can't be read: it is taken for this Forebay's."""
    settled: dict[ObjectName, set[str]] = field(default_factory=dict)
    """ETags of objects that settled writes made, as far as their logs are still there."""
    orphans: int = 0
    """Bodies of no pending record: they were never acknowledged, or are carried out."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged."""
        return not (
            self.is_format_damaged
            or self.log_damages
            or self.unreadable
            or self.damaged_parts
            or any(each.damage for each in self.writes)
        )


@contextmanager
def locked_journal(path: Path) -> Iterator[bool]:
    """Keeps a Forebay from starting on this journal meanwhile. False: one runs. Raises NoJournal."""
    try:
        lock = os.open(path / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise NoJournal(f"{path} holds no journal; name the directory of journal.path.") from None
    except OSError as error:
        raise NoJournal(f"{path} can't be read: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_locked = False
        else:
            is_locked = True
        yield is_locked
    finally:
        os.close(lock)


def check_journal(path: Path) -> JournalReport:
    """Verifies every record and every body. Raises NoJournal."""
    files, layout = JournalFiles(), JournalLayout(str(path))
    try:
        version = read_version(layout)
        if version is not None and version != VERSION:
            sentence = f"{path}: its layout has version {version}, and this Forebay reads {VERSION}"
            raise NoJournal(f"{sentence}: check it by the Forebay that wrote it.")
        scan = scan_journal(files, layout)
        bodies = {name.removesuffix(BODY) for name in files.names(layout.bodies)}
    except OSError as error:
        raise NoJournal(f"{path} can't be read: {error.strerror}.") from None
    report = JournalReport(log_damages=[(log, each) for log, found in scan.damages.items() for each in found])
    report.is_format_damaged = version is None
    report.torn = list(scan.torn.items())
    for (bucket, key, _), (_, etag) in scan.settled.items():
        report.settled.setdefault(ObjectName(bucket, key), set()).add(etag)
    entries: dict[RecordId, tuple[JournalEntry, bytes]] = {}
    for record in scan.pending:
        bodies -= {body.id for body in bodies_of(record.document)}
        try:
            entries[record.id] = decode_record(record), record.payload
        except ValueError:
            report.unreadable.append(record.id)
    report.orphans = len(bodies)
    used: set[RecordId] = set()
    moved = {entry.upload_id for entry, _ in entries.values() if isinstance(entry, MovedUpload)}
    for record_id, (entry, payload) in entries.items():
        if isinstance(entry, AcceptedWrite):
            if record_id in scan.refused or (
                entry.upload_id in moved and any(part.record not in entries for part in entry.parts)
            ):
                continue  # refused (write.back.pending.shown_records)
            checked = _check(files, layout, CheckedWrite(record_id, entry, ()), entries, payload)
            report.writes.append(checked)
            used |= {part.record for part in entry.parts}
    report.writes.sort(key=lambda each: each.write.interval.written)
    for record_id, (entry, payload) in entries.items():
        if not isinstance(entry, AcceptedPart) or record_id in used or entry.upload_id in scan.ended_uploads:
            continue
        report.unfinished_parts += 1
        try:
            _check_size(_content(files, layout, body_parts(entry.bodies, payload)), entry.size)
        except (OSError, BodyDamaged) as error:
            report.damaged_parts.append((entry.name, entry.origin_number, str(error)))
    return report


def _check_size(pieces: Iterator[memoryview | bytes], expected: int) -> None:
    """Reads all of a body. Raises BodyDamaged, OSError."""
    size = sum(map(len, pieces))
    if size != expected:
        raise BodyDamaged(f"it has {size} bytes in place of {expected}")


def read_content(path: Path, write: CheckedWrite) -> Iterator[memoryview | bytes]:
    """Yields the verified bytes of a write, a MiB at a time. Raises OSError, BodyDamaged."""
    yield from _content(JournalFiles(), JournalLayout(str(path)), write.parts)


def export_writes(path: Path, writes: Sequence[CheckedWrite], target: Path) -> None:
    """Writes each pending write into a directory, which must be empty: the object into a file, and a line about it into
    the manifest. Durable when it returns. Raises OSError."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise FileExistsError(errno.EEXIST, "it is not empty", str(target))
    with (target / MANIFEST).open("x", encoding="utf-8") as manifest:
        for number, each in enumerate(writes, 1):
            line = _manifest_line(each)
            if not each.damage and each.write.facts is not None:
                line["file"] = f"{number:08}"
                with (target / line["file"]).open("xb") as file:
                    for piece in read_content(path, each):
                        file.write(piece)
                    _sync(file)
            manifest.write(json.dumps(line) + "\n")
        _sync(manifest)


def _sync(file: IO[Any]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _manifest_line(each: CheckedWrite) -> dict[str, Any]:
    write = each.write
    return {
        "kind": write.kind,
        "bucket": write.name.bucket,
        "key": write.name.key,
        "size": write.size,
        "etag": write.facts.version.etag if write.facts is not None else None,
        "accepted_at": write.accepted_at,
        "headers": write.headers,
        "part_sizes": [part.size for part in each.parts] if write.kind == "complete" else [],
        "damage": each.damage,
        "file": None,
    }


def _check(
    files: JournalFiles,
    layout: JournalLayout,
    checked: CheckedWrite,
    entries: dict[RecordId, tuple[JournalEntry, bytes]],
    payload: bytes,
) -> CheckedWrite:
    write = checked.write
    if write.facts is None:
        return checked
    try:
        checked.parts = _parts_of(write, entries, payload)
        found = (entries[part.record][0] for part in write.parts)
        checked.part_headers = tuple(entry.headers for entry in found if isinstance(entry, AcceptedPart))
        _check_size(_content(files, layout, checked.parts), write.size)
    except (OSError, BodyDamaged) as error:
        checked.damage = str(error)
    return checked


def _parts_of(
    write: AcceptedWrite, entries: dict[RecordId, tuple[JournalEntry, bytes]], payload: bytes
) -> tuple[BodyPart, ...]:
    if write.kind != "complete":
        return body_parts(write.bodies, payload)
    found: list[BodyPart] = []
    for part in write.parts:
        entry, content = entries.get(part.record, (None, b""))
        if not isinstance(entry, AcceptedPart):
            raise BodyDamaged(f"its part {part.number} is missing")
        found += body_parts(entry.bodies, content)
    return tuple(found)


def _content(files: JournalFiles, layout: JournalLayout, parts: Sequence[BodyPart]) -> Iterator[memoryview | bytes]:
    for part in parts:
        if part.file is None:
            yield part.content
            continue
        reader = BodyReader(files, layout, part.file)
        try:
            for start in range(0, part.size, SLICE):
                yield reader.read(Span(start, min(start + SLICE, part.size)))
        finally:
            reader.close()
