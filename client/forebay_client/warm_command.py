"""`forebay warm`: starts a job, and with `--wait` follows it to its end.

The job runs in the server and goes on when this command ends; but Ctrl-C with `--wait` cancels it. Success means that
every object is in the cache at the end: not that each was in it once. With `--check` the job fetches nothing.
"""

from collections.abc import Iterable, Mapping

from forebay_client.admin_client import AdminClient, JsonObject, api_path
from forebay_client.command_context import CommandContext, Screen
from forebay_client.deferred_interrupts import defer_interrupts
from forebay_client.human_format import (
    escape_unprintable,
    format_count,
    format_duration,
    format_plural,
    format_rate,
    format_size,
)
from forebay_client.progress_display import BarDisplay, LineDisplay, NoDisplay, ProgressDisplay
from forebay_client.s3_location import Location
from forebay_client.text_tables import job_target

POLL_INTERVAL = 0.5
"""Seconds between two polls of a job."""
FAILURES_SHOWN = 10
GLOB_MARKS = "*?["


def parse_key_list(lines: Iterable[str]) -> list[str]:
    """The keys of a list, one a line. A key is the whole line, blanks included; empty lines are skipped."""
    return [key for line in lines if (key := line.rstrip("\r\n"))]


def warm_request(
    where: Location, keys: list[str] | None, concurrency: int | None, *, check: bool = False, if_fits: bool = False
) -> dict[str, object]:
    """The body of POST /v1/jobs."""
    fields: dict[str, object] = {"bucket": where.bucket}
    fields |= {"prefix": where.prefix} if keys is None else {"keys": keys}
    if concurrency is not None:
        fields["concurrency"] = concurrency
    flags = {"check": check, "if_fits": if_fits}
    return fields | {name: True for name, is_set in flags.items() if is_set}


def run_warm(
    admin: AdminClient, context: CommandContext, fields: Mapping[str, object], *, wait: bool, as_json: bool
) -> int:
    """Start the job. The exit code is 0 without `wait`, or when every object is in the cache at its end; else 1."""
    job: JsonObject | None = None
    try:
        # An interrupt between the request and its response would leave a job whose id is not known.
        with defer_interrupts():
            job = admin.post(api_path("jobs"), fields)
        if wait:
            job = _follow(admin, context, job, as_json=as_json)
    except KeyboardInterrupt:
        if job is None:
            raise
        job = admin.delete(api_path("jobs", job["id"]))
    if as_json:
        context.screen.write_json(job)
    else:
        report_job(context.screen, job)
    return 1 if job["state"] in {"failed", "cancelled"} else 0


def _follow(admin: AdminClient, context: CommandContext, job: JsonObject, *, as_json: bool) -> JsonObject:
    """Poll the job until it has ended; the job then."""
    screen = context.screen
    progress: ProgressDisplay = (
        NoDisplay() if as_json or job["check"] else BarDisplay(screen) if screen.is_terminal else LineDisplay(screen)
    )
    if not as_json and not job["check"]:
        screen.write_line(f"Job {job['id']} warms {job_target(job)}; Ctrl-C cancels it.")
        screen.out.flush()
    is_warned = False
    with progress:
        while job["state"] == "running":
            context.sleep(POLL_INTERVAL)
            job = admin.get(api_path("jobs", job["id"]))
            if job["fits"] is False and not job["if_fits"] and not is_warned:
                is_warned = True
                progress.warn(f"{misfit(job)}: not all of it will stay.")
            progress.show(job, context.monotonic())
    return job


def report_job(screen: Screen, job: JsonObject) -> None:
    """Write what became of a job, in sentences."""
    if job["state"] == "cancelled":
        screen.write_error(f"Cancelled job {job['id']}; until then {_amount(job)} had been warmed.")
    elif job["state"] == "running":
        screen.write_line(f"Job {job['id']} warms {job_target(job)}.")
        screen.write_line("It goes on by itself and ends with Forebay's process; `forebay jobs` shows how far it is.")
    elif job["listed"] == 0:
        _report_failure(screen, job)
    elif job["check"]:
        _report_failure(screen, job)
        screen.write_line(f"{format_count(job['kept'] or 0)} of {_listed(job)} are cached whole: {_tiers(job)}.")
        if job["fits"] is False:
            screen.write_line(f"{misfit(job)}.")
    elif job["state"] == "done":
        screen.write_line(f"Warmed {_amount(job)}{_speed(job)}.", "green")
        screen.write_line(f"In the cache at the end: {_tiers(job)}.")
    else:
        _report_failure(screen, job)
        if job["done"]:
            _report_kept(screen, job)


def _report_failure(screen: Screen, job: JsonObject) -> None:
    if job["if_fits"] and job["fits"] is False:
        screen.write_error(f"{misfit(job)}: nothing was fetched.")
    elif job["reason"]:
        screen.write_error(f"Job {job['id']} failed: {escape_unprintable(job['reason'])}.")
    literal, mark = _split_at_glob(job["prefix"] or "")
    if not job["listed"] and mark:
        screen.write_error(
            f"A prefix is no pattern, and {mark!r} stands for itself in it. Try "
            f"{escape_unprintable(str(Location(job['bucket'], literal)))}, or the keys with --keys."
        )
    if job["failed"]:
        screen.write_error(
            f"{format_count(job['failed'])} of {format_plural(job['listed'], 'object')} could not be warmed:"
        )
        shown = job["failures"][:FAILURES_SHOWN]
        for failure in shown:
            screen.write_error(f"  {escape_unprintable(failure['key'])}: {escape_unprintable(failure['reason'])}")
        if job["failed"] > len(shown):
            screen.write_error(f"  and {format_count(job['failed'] - len(shown))} more")


def _report_kept(screen: Screen, job: JsonObject) -> None:
    if job["not_kept"] is None:
        screen.write_error(f"Warmed {_amount(job)}.")
        return
    kept = f"{format_size(job['bytes_kept'])} of {format_size(job['bytes_listed'])}"
    screen.write_error(
        f"Warmed {format_plural(job['done'], 'object')}, {format_count(job['kept'])} of them stayed in the cache "
        f"({kept}): {job['not_kept']}."
    )


def _split_at_glob(prefix: str) -> tuple[str, str]:
    """The prefix before its first glob character, and that character."""
    found = min((prefix.index(mark) for mark in GLOB_MARKS if mark in prefix), default=len(prefix))
    return prefix[:found], prefix[found : found + 1]


def misfit(job: JsonObject) -> str:
    """What a job has, and what the cache keeps: the beginning of a sentence."""
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
    return f" in {format_duration(seconds)} ({format_rate(job['bytes_done'] / seconds)})"
