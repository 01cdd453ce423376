"""`forebay warm`: orders a job, and with `--wait` stays until it has ended.

A job belongs to the server, so it goes on when this command ends; unless that is by Ctrl-C while it waits, which
cancels it. Success is every object in the cache.
"""

from collections.abc import Iterable, Mapping

from forebay_client.admin import Admin, Answer, path
from forebay_client.interrupts import interrupts_held
from forebay_client.location import Location
from forebay_client.progress import Bar, Lines, Progress, Quiet
from forebay_client.quantities import counted, duration, number, rate, size, visible
from forebay_client.surroundings import Screen, Surroundings
from forebay_client.tables import job_target

LOOK_EVERY = 0.5
"""Seconds between two looks at a job."""
FAILURES_SHOWN = 10


def keys_in(lines: Iterable[str]) -> list[str]:
    """The keys of a list, one a line. A key is taken as it stands, blanks included; empty lines are none."""
    return [key for line in lines if (key := line.rstrip("\r\n"))]


def order(where: Location, keys: list[str] | None, concurrency: int | None) -> dict[str, object]:
    """The body of POST /v1/jobs."""
    fields: dict[str, object] = {"bucket": where.bucket}
    fields |= {"prefix": where.prefix} if keys is None else {"keys": keys}
    if concurrency is not None:
        fields["concurrency"] = concurrency
    return fields


def warm(admin: Admin, around: Surroundings, fields: Mapping[str, object], *, wait: bool, as_json: bool) -> int:
    """Orders the job. 0 when that was all, or with `wait` when every object is in the cache; else 1."""
    job: Answer | None = None
    try:
        # An interrupt between the order and its answer would leave a job whose name nobody knows.
        with interrupts_held():
            job = admin.post(path("jobs"), fields)
        if wait:
            job = _follow(admin, around, job, as_json=as_json)
    except KeyboardInterrupt:
        if job is None:
            raise
        job = admin.delete(path("jobs", job["id"]))
    if as_json:
        around.screen.document(job)
    else:
        _report(around.screen, job)
    return 1 if job["state"] in {"failed", "cancelled"} else 0


def _follow(admin: Admin, around: Surroundings, job: Answer, *, as_json: bool) -> Answer:
    """The job, once it has ended."""
    screen = around.screen
    progress: Progress = Quiet() if as_json else Bar(screen) if screen.is_terminal else Lines(screen)
    if not as_json:
        screen.line(f"Job {job['id']} warms {job_target(job)}; Ctrl-C cancels it.")
        screen.out.flush()
    with progress:
        while job["state"] == "running":
            around.pause(LOOK_EVERY)
            job = admin.get(path("jobs", job["id"]))
            progress.show(job, around.monotonic())
    return job


def _report(screen: Screen, job: Answer) -> None:
    match job["state"]:
        case "running":
            screen.line(f"Job {job['id']} warms {job_target(job)}.")
            screen.line("It goes on by itself and ends with Forebay's process; `forebay jobs` shows how far it is.")
        case "done":
            screen.line(f"Warmed {_amount(job)}{_speed(job)}.", "green")
        case "cancelled":
            screen.complain(f"Cancelled job {job['id']}; until then {_amount(job)} had been warmed.")
        case _:
            _report_failure(screen, job)


def _report_failure(screen: Screen, job: Answer) -> None:
    if job["reason"]:
        screen.complain(f"Job {job['id']} failed: {visible(job['reason'])}")
    if job["failed"]:
        screen.complain(f"{number(job['failed'])} of {counted(job['listed'], 'object')} could not be warmed:")
        shown = job["failures"][:FAILURES_SHOWN]
        for failure in shown:
            screen.complain(f"  {visible(failure['key'])}: {visible(failure['reason'])}")
        if job["failed"] > len(shown):
            screen.complain(f"  and {number(job['failed'] - len(shown))} more")
    screen.complain(f"Warmed {_amount(job)}.")


def _amount(job: Answer) -> str:
    return f"{counted(job['done'], 'object')}, {size(job['bytes_done'])}"


def _speed(job: Answer) -> str:
    if job["ended_at"] is None or job["ended_at"] <= job["started_at"]:
        return ""
    seconds = job["ended_at"] - job["started_at"]
    return f" in {duration(seconds)} ({rate(job['bytes_done'] / seconds)})"
