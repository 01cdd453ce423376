"""`forebay check-journal`: lists and verifies the records of a journal, without a running Forebay."""

import sys
import time
from pathlib import Path
from typing import Final, TextIO

from forebay.core.units import round_size
from forebay.serve import fail
from forebay.storage.journal.body_file import BodyDamaged
from forebay.storage.journal.journal_layout import VERSION
from forebay.write.back.journal_check import (
    CheckedWrite,
    JournalReport,
    NoJournal,
    check_journal,
    export_writes,
    locked_journal,
)
from forebay.write.back.journal_transfer import JournalTransfer, TransferFailed, TransferRefused

WHOLE, DAMAGED, UNUSABLE = 0, 1, 2
"""The exit codes."""
_WIDTHS: Final = "{:8} {:8} {:>10} {:>8}  {}"


def check_journal_command(path: Path, export: Path | None, endpoint: str | None = None, *, force: bool = False) -> int:
    """Prints the content of a journal, and exports it to a directory or an endpoint. `force`: over newer objects there.
    Returns the exit code."""
    if force and endpoint is None:
        return fail("--force belongs to --export-to.", UNUSABLE)
    try:
        with locked_journal(path) as is_locked:
            return _check(path, export, endpoint, is_locked=is_locked, force=force)
    except NoJournal as error:
        return fail(str(error), UNUSABLE)


def _check(path: Path, export: Path | None, endpoint: str | None, *, is_locked: bool, force: bool) -> int:
    if not is_locked and (export is not None or endpoint is not None):
        return fail(f"A Forebay runs on {path}. Stop it first, or export with `forebay writes export`.", UNUSABLE)
    report = check_journal(path)
    if not is_locked:
        _print("A Forebay runs on this journal: what it writes meanwhile shows up or not.", sys.stderr)
    lines = [_line(each) for each in report.writes]
    if report.is_format_damaged:
        lines.append(f"damaged  FORMAT, the version of the layout: read as version {VERSION}")
    lines += [f"damaged  log {log}, bytes {each.start} to {each.stop}" for log, each in report.log_damages]
    lines += [
        f"torn     log {log}, bytes {each.start} to {each.stop}: never acknowledged, or its last write, damaged"
        for log, each in report.torn
    ]
    lines += [
        f"damaged  part {number} of an unfinished upload of {name.path}: {damage}"
        for name, number, damage in report.damaged_parts
    ]
    lines += [f"damaged  record {record.number} of log {record.log} is no write" for record in report.unreadable]
    size, damaged = sum(each.write.size for each in report.writes), sum(bool(each.damage) for each in report.writes)
    lines.append(f"{_count(len(report.writes), 'pending write')} of {round_size(size)}, {damaged} damaged.")
    if report.unfinished_parts:
        lines.append(f"{_count(report.unfinished_parts, 'part')} of uploads that were not completed.")
    if report.orphans:
        lines.append(f"Bodies without a pending record, which nobody needs: {report.orphans}.")
    for line in lines:
        _print(line)
    if export is not None:
        try:
            export_writes(path, report.writes, export)
        except FileExistsError as error:
            return fail(f"{export} can't be written: {error.strerror}.", UNUSABLE)
        except (OSError, BodyDamaged) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return fail(f"{export} can't be written: {reason}. It has a part of the writes, no whole export.", UNUSABLE)
        _print(f"Exported to {export}; the journal stays as it is.")
    if endpoint is not None and not _transfer(path, report, endpoint, force=force):
        return UNUSABLE
    return WHOLE if report.is_whole else DAMAGED


def _transfer(path: Path, journal: JournalReport, endpoint: str, *, force: bool) -> bool:
    """Carries the writes out at an endpoint. Returns whether all that are whole are there."""
    try:
        report = JournalTransfer(path, endpoint, journal.settled).send(journal.writes, force=force)
    except TransferRefused as refusal:
        for name in refusal.newer:
            _print(f"newer  {ascii(f's3://{name.path}')[1:-1]}: somebody wrote it there after the journal's write")
        for name in refusal.same_second:
            _print(
                f"unclear  {ascii(f's3://{name.path}')[1:-1]}: from the second of the journal's write, older or newer"
            )
        fail("Nothing was sent. With --force, the named objects are written over.", UNUSABLE)
        return False
    except (TransferFailed, BodyDamaged) as error:
        fail(f"{str(error).rstrip('.')}. What was sent until then stays; the command can be repeated.", UNUSABLE)
        return False
    except OSError as error:
        fail(f"The journal can't be read: {error.strerror}.", UNUSABLE)
        return False
    for name in report.held_back:
        _print(f"held back  {ascii(f's3://{name.path}')[1:-1]}: a damaged write of its bucket comes before it")
    _print(f"{_count(report.sent, 'write')} carried out at {endpoint}; already there: {report.present}.")
    _print("The journal stays as it is.")
    return True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print(line: str, file: TextIO | None = None) -> None:
    print(line, file=file)  # the command's output


def _line(each: CheckedWrite) -> str:
    write, state = each.write, "damaged" if each.damage else "whole"
    age = f"{max(0.0, time.time() - write.accepted_at):.0f} s"
    name = f"s3://{write.name.path}" + (f": {each.damage}" if each.damage else "")
    return _WIDTHS.format(state, write.kind, round_size(write.size), age, ascii(name)[1:-1])
