"""`forebay warm`: starts a job, and with `--wait` follows it to its end.

The job runs in the server and goes on when this command ends; but Ctrl-C with `--wait` cancels it. Success means that
every object is in the cache at the end: not that each was in it once. With `--check` the job fetches nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forebay_client.cli.admin_client import AdminClient, AdminRefused, AdminUnreachable, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.deferred_interrupts import defer_interrupts
from forebay_client.cli.job_report import ENDED, capacity_sentence, check_report, exit_code, report_job, write_report
from forebay_client.cli.key_files import KeyFile, read_pieces
from forebay_client.cli.progress_display import BarDisplay, LineDisplay, NoDisplay, ProgressDisplay
from forebay_client.cli.s3_location import SCHEMES, Location
from forebay_client.cli.text_tables import job_target

POLL_INTERVAL = 0.5
"""Seconds between two polls of a job."""
RESTART_PATIENCE = 120.0
"""Seconds that Forebay may be away, while a job that survives is followed."""
GLOB_MARKS = "*?"
_RESTARTING = (404, 503)
"""Refusals of a Forebay that has not yet found its jobs again, or has no worker for the moment."""


@dataclass(frozen=True, slots=True)
class WarmRequest:
    """The objects of a job, and the fields of POST /v1/jobs that bound it."""

    locations: Sequence[Location]
    key_files: Sequence[KeyFile]
    columns: str | None
    """Of an inventory."""
    is_literal: bool
    """Whether `*` and `?` stand for themselves."""
    bounds: Mapping[str, object]
    recording: str | None = None
    """s3://bucket/name, or the name alone."""
    plan: str | None = None
    """Likewise, or its id."""


def run_warm(
    admin: AdminClient,
    context: CommandContext,
    request: WarmRequest,
    *,
    wait: bool,
    report: str | None,
    as_json: bool,
) -> int:
    """Starts the job. The exit code: see job_report."""
    check_report(report)
    fields = _order(admin, context, request)
    job: JsonObject | None = None
    try:
        # An interrupt between the request and its response would leave a job whose id is not known.
        with defer_interrupts():
            job = admin.post(api_path("jobs"), fields)
        if wait and not as_json and not job["check"]:
            context.screen.write_line(f"Job {job['id']} warms {job_target(job)}; Ctrl-C cancels it.")
            context.screen.out.flush()
        if wait:
            job = follow_job(admin, context, job, as_json=as_json)
    except KeyboardInterrupt:
        if job is None:
            raise
        job = admin.delete(api_path("jobs", job["id"]))
    if report is not None:
        write_report(admin, job, report)
    if as_json:
        context.screen.write_json(job)
    else:
        report_job(context.screen, job)
    return exit_code(job)


def _order(admin: AdminClient, context: CommandContext, request: WarmRequest) -> dict[str, object]:
    """The body of POST /v1/jobs. Sends the lists that it names."""
    fields: dict[str, object] = dict(request.bounds)
    if request.recording is not None or request.plan is not None:
        named = {"recordings": request.recording, "plans": request.plan}
        return fields | {name: [_named(request, text)] for name, text in named.items() if text is not None}
    if request.key_files:
        bucket = {"bucket": request.locations[0].bucket} if request.locations else {}
        columns = {"columns": request.columns} if request.columns is not None else {}
        contents = [(file.list_format, read_pieces(context, file.name)) for file in request.key_files]
        fields["lists"] = [
            admin.post_stream(api_path("lists"), {"format": list_format, **bucket, **columns}, pieces)["id"]
            for list_format, pieces in contents
        ]
        return fields
    globs = [each for each in request.locations if not request.is_literal and is_glob(each)]
    prefixes = [each for each in request.locations if each not in globs]
    if globs:
        fields["globs"] = [str(each) for each in globs]
    if len(prefixes) == 1 and not globs:
        fields |= {"bucket": prefixes[0].bucket, "prefix": prefixes[0].prefix}
    elif prefixes:
        fields["locations"] = [str(each) for each in prefixes]
    return fields


def _named(request: WarmRequest, text: str) -> str:
    """A recording or plan, in the bucket of the command line if there is one and its name is not a location itself."""
    if not request.locations or text.startswith(SCHEMES):
        return text
    return str(Location(request.locations[0].bucket, text))


def is_glob(location: Location) -> bool:
    """Whether the prefix has a wildcard."""
    return any(mark in location.prefix for mark in GLOB_MARKS)


def follow_job(admin: AdminClient, context: CommandContext, job: JsonObject, *, as_json: bool) -> JsonObject:
    """Polls a job until it has ended, through restarts of Forebay if it survives them; the job then."""
    screen = context.screen
    progress: ProgressDisplay = (
        NoDisplay() if as_json or job["check"] else BarDisplay(screen) if screen.is_terminal else LineDisplay(screen)
    )
    is_warned = False
    lost_at: float | None = None
    with progress:
        while job["state"] not in ENDED:
            context.sleep(POLL_INTERVAL)
            try:
                job = admin.get(api_path("jobs", job["id"]))
            except (AdminUnreachable, AdminRefused) as error:
                lost_at = context.monotonic() if lost_at is None else lost_at
                may_return = isinstance(error, AdminUnreachable) or error.status in _RESTARTING
                if not job["survives"] or not may_return or context.monotonic() - lost_at > RESTART_PATIENCE:
                    raise
                continue
            if lost_at is not None and not as_json:
                progress.warn("Forebay was restarted; the job goes on.")
            lost_at = None
            if job["fits"] is False and not job["if_fits"] and not is_warned:
                is_warned = True
                progress.warn(f"{capacity_sentence(job)}: not all of it will stay.")
            progress.show(job, context.monotonic())
    return job
