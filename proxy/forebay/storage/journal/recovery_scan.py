"""The scan of a journal's directory: finds the pending writes and the damage. Reads only.

    logs ──> records ──minus void, minus settled──> pending, in no order across logs

The journal of a running Forebay may be scanned as well: records that are being written are found or not.
"""

import json
from dataclasses import dataclass, field
from typing import Final

from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import JournalLayout, log_ids
from forebay.storage.journal.journal_record import Document, LogDamage, TornEnd, read_records
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.settled_numbers import is_settled, read_settled

_WRITES: Final = frozenset({"put", "delete", "complete"})
"""The records that change an object."""


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A record that is not settled."""

    id: RecordId
    document: Document
    payload: bytes


@dataclass(slots=True)
class JournalScan:
    """The content of a directory."""

    pending: list[PendingRecord] = field(default_factory=list)
    damages: dict[str, list[LogDamage]] = field(default_factory=dict)
    """The bytes that were durable once and can't be read, by log."""
    torn: dict[str, TornEnd] = field(default_factory=dict)
    """The unreadable bytes behind the last record, which were never acknowledged, or are damaged, by log."""
    settled: dict[tuple[str, str, str], tuple[int, str]] = field(default_factory=dict)
    """The time of the last write that was carried out, of those whose log is still there, and the ETag that it made
    (empty: it was a deletion), by bucket, key and origin (as JSON)."""
    ended_uploads: set[str] = field(default_factory=set)
    """Uploads whose completions were carried out, as far as their logs are still there."""
    refused: set[RecordId] = field(default_factory=set)
    """Pending completions of which a part is settled. No drainer settles a part before the completion that counts:
    these were refused, for another one or for an abort."""
    last_written: int = 0
    """The latest time of writing in any record."""
    finished_logs: list[str] = field(default_factory=list)
    """Logs that say nothing any more: no pending record, no damage, nothing void in another log that is still there.
    The last one of a running process is among them."""


def scan_journal(files: JournalFiles, layout: JournalLayout) -> JournalScan:
    """Reads every log. Raises OSError for one that can't be read."""
    scan = JournalScan()
    voids: dict[str, int] = {}
    voiding: dict[str, str] = {}
    found: dict[str, list[PendingRecord]] = {}
    numbers: dict[str, set[int]] = {}
    for log in log_ids(files.names(layout.logs)):
        settled = numbers[log] = read_settled(files, layout, log)
        try:
            content = _content(files, layout, log)
        except FileNotFoundError:
            continue  # reclaimed meanwhile: nothing of it was pending
        found[log] = []
        for item in read_records(bytes.fromhex(log), content):
            if isinstance(item, LogDamage):
                scan.damages.setdefault(log, []).append(item)
            elif isinstance(item, TornEnd):
                scan.torn[log] = item
            elif "void" in item.document:
                voids[item.document["void"]] = int(item.document["from"])  # a log ends with its first batch that failed
                voiding[log] = item.document["void"]
            else:
                scan.last_written = max(scan.last_written, int(item.document.get("written", 0)))
                if not is_settled(item.number, settled):
                    found[log].append(PendingRecord(RecordId(log, item.number), item.document, item.payload))
                elif item.number in settled:
                    _note_carried_out(scan, item.document)
    for log, records in found.items():
        pending = [each for each in records if each.id.number < voids.get(log, each.id.number + 1)]
        scan.pending += pending
        if not pending and log not in scan.damages and voiding.get(log) not in found:
            scan.finished_logs.append(log)
    scan.refused = {
        record.id
        for record in scan.pending
        if any(is_settled(part, numbers.get(str(log), ())) for _, _, log, part in record.document.get("parts", ()))
    }
    scan.ended_uploads -= {str(record.document.get("upload")) for record in scan.pending if _is_completion(record)}
    return scan


def _is_completion(record: PendingRecord) -> bool:
    return record.document.get("write") == "complete"


def _note_carried_out(scan: JournalScan, document: Document) -> None:
    if document.get("write") not in _WRITES:
        return
    name = str(document["bucket"]), str(document["key"]), json.dumps(document.get("origin"))
    written = int(document["written"]), str(document.get("etag", ""))
    scan.settled[name] = max(scan.settled.get(name, written), written)
    if document["write"] == "complete":
        scan.ended_uploads.add(str(document["upload"]))


def _content(files: JournalFiles, layout: JournalLayout, log: str) -> bytes:
    fd = files.open(layout.log(log))
    try:
        return files.read(fd, files.size(fd), 0)
    finally:
        files.close(fd)
