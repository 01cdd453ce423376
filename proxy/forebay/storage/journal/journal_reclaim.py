"""Reclaim: removes files that no pending write needs: logs without one, their settled numbers, bodies without a record.

A log goes before its settled numbers, durably, or its records would count as pending again. A body without a record is
looked for twice: its writer holds a lock until the record is durable, so whoever has the lock and finds no record then
knows that there will be none.

For one process at a time (drain.lock). Raises OSError.
"""

from contextlib import AbstractContextManager

from forebay.storage.journal.body_file import BodyRef
from forebay.storage.journal.journal_files import JournalFiles
from forebay.storage.journal.journal_layout import BODY, SETTLED, JournalLayout, log_ids
from forebay.storage.journal.journal_record import Document
from forebay.storage.journal.recovery_scan import JournalScan, scan_journal
from forebay.storage.journal.settled_numbers import append_settled, read_settled


def bodies_of(document: Document) -> list[BodyRef]:
    """Returns the bodies that a record refers to."""
    return [BodyRef(*each) for each in document.get("bodies", ())]


def reclaim(files: JournalFiles, layout: JournalLayout, writing: AbstractContextManager[object]) -> JournalScan:
    """Removes unneeded files; returns the pending records. `writing`: held while settled numbers are written."""
    bodies = {name.removesuffix(BODY) for name in files.names(layout.bodies) if name.endswith(BODY)}
    scan = scan_journal(files, layout)
    for log in scan.finished_logs:
        _remove_unlocked(files, layout.log(log))
    _remove_orphaned_numbers(files, layout)
    if scan.damages:
        return scan  # a body may belong to a record that can't be read
    orphans = bodies - _referenced(scan)
    locked = {body: fd for body in orphans if (fd := _locked(files, layout.body(body))) is not None}
    try:
        if locked:
            scan = scan_journal(files, layout)
            with writing:
                _rewrite_numbers(files, layout)
            for body in locked.keys() - _referenced(scan):
                files.unlink(layout.body(body))
    finally:
        for fd in locked.values():
            files.close(fd)
    return scan


def _referenced(scan: JournalScan) -> set[str]:
    return {body.id for record in scan.pending for body in bodies_of(record.document)}


def _rewrite_numbers(files: JournalFiles, layout: JournalLayout) -> None:
    """Writes all settled numbers once more, durably: those whose sync has failed are read back like the others, but a
    power cut would forget them, and their records would be pending again, without their bodies."""
    for name in files.names(layout.logs):
        if name.endswith(SETTLED):
            log = name.removesuffix(SETTLED)
            append_settled(files, layout, log, sorted(read_settled(files, layout, log)))


def _remove_orphaned_numbers(files: JournalFiles, layout: JournalLayout) -> None:
    files.sync_directory(layout.logs)
    names = files.names(layout.logs)
    logs = set(log_ids(names))
    for name in names:
        if name.endswith(SETTLED) and name.removesuffix(SETTLED) not in logs:
            files.unlink(f"{layout.logs}/{name}")


def _remove_unlocked(files: JournalFiles, path: str) -> None:
    fd = _locked(files, path)
    if fd is not None:
        files.unlink(path)
        files.close(fd)


def _locked(files: JournalFiles, path: str) -> int | None:
    """Returns a locked descriptor of a file; None: a writer has it, or it is gone."""
    try:
        fd = files.open(path, writable=True)  # NFS locks no other descriptor
    except FileNotFoundError:
        return None
    if files.lock(fd):
        return fd
    files.close(fd)
    return None
