"""The scan of a journal's directory: which writes are pending, and what is damaged. Reads only.

    logs ──> records ──minus void, minus settled──> pending, in no order across logs

The journal of a running Forebay may be scanned as well: what is being written shows up or not.
"""

import json
from dataclasses import dataclass, field

from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import LOG, JournalLayout
from forebay.storage.journal.journal_record import Document, LogDamage, TornEnd, read_records
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.settled_numbers import read_settled


@dataclass(frozen=True, slots=True)
class PendingRecord:
    """A record that is not settled."""

    id: RecordId
    document: Document
    payload: bytes


@dataclass(slots=True)
class JournalScan:
    """What a directory holds."""

    pending: list[PendingRecord] = field(default_factory=list)
    damages: dict[str, list[LogDamage]] = field(default_factory=dict)
    """By log: what was durable once and can't be read."""
    torn: dict[str, TornEnd] = field(default_factory=dict)
    """By log: what can't be read behind that, which was never acknowledged, or is damaged."""
    settled: dict[tuple[str, str, str], tuple[int, str]] = field(default_factory=dict)
    """By bucket, key and origin (as JSON), when the last settled write was written, of those whose log is still there,
    and the ETag that it made; empty: it was a deletion."""
    finished_logs: list[str] = field(default_factory=list)
    """Logs that say nothing any more: no pending record, no damage, nothing void in another log that is still there.
    The last one of a running process is among them."""


def scan_journal(files: JournalFiles, layout: JournalLayout) -> JournalScan:
    """Reads every log. Raises OSError for one that can't be read."""
    scan = JournalScan()
    voids: dict[str, int] = {}
    voiding: dict[str, str] = {}
    found: dict[str, list[PendingRecord]] = {}
    for name in files.names(layout.logs):
        if not name.endswith(LOG):
            continue
        log = name.removesuffix(LOG)
        settled = read_settled(files, layout, log)
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
            elif item.number not in settled:
                found[log].append(PendingRecord(RecordId(log, item.number), item.document, item.payload))
            else:
                _note_settled(scan.settled, item.document)
    for log, records in found.items():
        pending = [each for each in records if each.id.number < voids.get(log, each.id.number + 1)]
        scan.pending += pending
        if not pending and log not in scan.damages and voiding.get(log) not in found:
            scan.finished_logs.append(log)
    return scan


def _note_settled(settled: dict[tuple[str, str, str], tuple[int, str]], document: Document) -> None:
    if "written" in document:
        name = str(document["bucket"]), str(document["key"]), json.dumps(document.get("origin"))
        written = int(document["written"]), str(document.get("etag", ""))
        settled[name] = max(settled.get(name, written), written)


def _content(files: JournalFiles, layout: JournalLayout, log: str) -> bytes:
    fd = files.open(layout.log(log))
    try:
        return files.read(fd, files.size(fd), 0)
    finally:
        files.close(fd)
