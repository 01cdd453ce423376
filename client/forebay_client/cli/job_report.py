"""The report of a job: the sentences at its end, the exit code, and the file that lists its failures.

0  every wanted object is in the cache, or the job runs by itself
1  the job failed as a whole: nothing was found, the listing broke off, Forebay could not be reached
2  wrong usage
3  some objects could not be warmed; the report lists them
4  everything was warmed, and not all of it is in the cache: it does not fit, was evicted again, or
     a worker ended before it had stored it
5  the job was cancelled
"""

import json
from pathlib import Path
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import Screen
from forebay_client.cli.command_files import unwritable
from forebay_client.cli.human_format import (
    escape_unprintable,
    format_count,
    format_elapsed,
    format_plural,
    format_rate,
    format_size,
)
from forebay_client.cli.text_tables import JOB_VERBS, job_target

DONE, FAILED, PARTLY_FAILED, NOT_KEPT, CANCELLED = 0, 1, 3, 4, 5
FAILURES_SHOWN = 10
ENDED = ("done", "failed", "cancelled")


def exit_code(job: JsonObject) -> int:
    """The exit code of a command that followed the job, or only started it."""
    if job["state"] == "cancelled":
        return CANCELLED
    if job["state"] != "failed":
        return DONE
    if job["failed"] and not job["reason"]:
        return PARTLY_FAILED
    does_not_fit = job["if_fits"] and job["fits"] is False
    return NOT_KEPT if does_not_fit or not job["reason"] else FAILED


def check_report(name: str | None) -> None:
    """Raises UsageError if `write_report` could not write to this file; for before the job starts."""
    if name is None:
        return
    try:
        Path(name).open("a").close()
    except OSError as error:
        raise unwritable(name, error) from error


def write_report(admin: AdminClient, job: JsonObject, name: str) -> None:
    """Writes every failure of a job to a file, a JSON object a line. Raises UsageError."""
    try:
        with Path(name).open("w", encoding="utf-8") as file:
            after: str | None = "0"
            while after is not None:
                page = admin.get(api_path("jobs", job["id"], "failures"), {"after": after})
                file.writelines(json.dumps(failure) + "\n" for failure in page["failures"])
                after = page["next"]
    except OSError as error:
        raise unwritable(name, error) from error


def report_job(screen: Screen, job: JsonObject) -> None:
    """Writes the result of a job, in sentences."""
    if job["state"] == "cancelled":
        done = "warmed" if job["action"] == "warm" else "done"
        screen.write_error(f"Cancelled job {job['id']}; until then {_amount(job)} had been {done}.")
    elif job["action"] != "warm":
        _report_pack(screen, job)
    elif job["state"] not in ENDED:
        screen.write_line(f"Job {job['id']} warms {job_target(job)}.")
        survival = "goes on by itself, also after a restart" if job["survives"] else "ends with Forebay's process"
        screen.write_line(f"It {survival}; `forebay jobs` shows how far it is.")
    elif job["listed"] == 0:
        _report_failure(screen, job)
    elif job["check"]:
        _report_failure(screen, job)
        screen.write_line(f"{format_count(job['kept'] or 0)} of {_listed(job)} are cached whole: {_tiers(job)}.")
        if job["fits"] is False:
            screen.write_line(f"{capacity_sentence(job)}.")
    elif job["state"] == "done":
        screen.write_line(f"Warmed {_amount(job)}{_speed(job)}.", "green")
        if job["left_out"]:
            screen.write_line(
                f"{format_plural(job['left_out'], 'object')} beyond {format_size(job['until'])} left out."
            )
        screen.write_line(f"In the cache at the end: {_tiers(job)}.")
    else:
        _report_failure(screen, job)
        if job["done"]:
            _report_kept(screen, job)


_PACK_VERBS: Final = {"pack": "Packed", "check": "Verified", "delete": "Took out", "unpack": "Unpacked"}


def _report_pack(screen: Screen, job: JsonObject) -> None:
    if job["state"] not in ENDED:
        screen.write_line(f"Job {job['id']} {JOB_VERBS[job['action']]} {job_target(job)}.")
        survival = "goes on by itself, also after a restart" if job["survives"] else "ends with Forebay's process"
        screen.write_line(f"It {survival}; `forebay jobs` shows how far it is.")
        return
    if job["reason"]:
        screen.write_error(f"Job {job['id']} failed: {escape_unprintable(job['reason'])}.")
    if job["failed"]:
        screen.write_error(f"{format_count(job['failed'])} of {format_plural(job['listed'], 'object')} failed:")
        for failure in job["failures"][:FAILURES_SHOWN]:
            screen.write_error(f"  {escape_unprintable(failure['key'])}: {escape_unprintable(failure['reason'])}")
    if job["state"] == "done" or job["done"]:
        is_moved = job["action"] != "delete"  # a deletion takes members out of the index, and moves no bytes
        amount = f"{_amount(job)}{_speed(job)}" if is_moved else format_plural(job["done"], "object")
        screen.write_line(f"{_PACK_VERBS[job['action']]} {amount}.")


def _report_failure(screen: Screen, job: JsonObject) -> None:
    if job["if_fits"] and job["fits"] is False:
        screen.write_error(f"{capacity_sentence(job)}: nothing was fetched.")
    elif job["reason"]:
        screen.write_error(f"Job {job['id']} failed: {escape_unprintable(job['reason'])}.")
    if job["failed"]:
        screen.write_error(
            f"{format_count(job['failed'])} of {format_plural(job['listed'], 'object')} could not be warmed:"
        )
        shown = job["failures"][:FAILURES_SHOWN]
        for failure in shown:
            screen.write_error(f"  {escape_unprintable(failure['key'])}: {escape_unprintable(failure['reason'])}")
        if job["failed"] > len(shown):
            screen.write_error(f"  and {format_count(job['failed'] - len(shown))} more; --report FILE lists all")


def _report_kept(screen: Screen, job: JsonObject) -> None:
    if job["not_kept"] is None:
        screen.write_error(f"Warmed {_amount(job)}.")
        return
    kept = f"{format_size(job['bytes_kept'])} of {format_size(job['bytes_listed'])}"
    screen.write_error(
        f"Warmed {format_plural(job['done'], 'object')}, {format_count(job['kept'])} of them stayed in the cache "
        f"({kept}): {job['not_kept']}."
    )


def capacity_sentence(job: JsonObject) -> str:
    """Returns the beginning of a sentence that compares the size of a job with that of the cache."""
    return f"{job_target(job)} has {_listed(job)}, and the cache keeps {format_size(job['capacity'])}"


def _listed(job: JsonObject) -> str:
    return f"{format_plural(job['listed'], 'object')} of {format_size(job['bytes_listed'])}"


def _tiers(job: JsonObject) -> str:
    memory, ssd = format_size(job["bytes_in_memory"]), format_size(job["bytes_on_ssd"])
    return f"{format_size(job['bytes_kept'])} ({memory} in memory, {ssd} on SSD)"


def _amount(job: JsonObject) -> str:
    return f"{format_plural(job['done'], 'object')}, {format_size(job['bytes_done'])}"


def _speed(job: JsonObject) -> str:
    if job["ended_at"] is None or job["ended_at"] <= job["started_at"]:
        return ""
    seconds = job["ended_at"] - job["started_at"]
    return f" in {format_elapsed(seconds)} ({format_rate(job['bytes_done'] / seconds)})"
