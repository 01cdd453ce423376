"""`forebay warm`: starts a warm-up job, and with `--wait` follows it to its end.

Success means that every object is in the cache at the end: not that each was in it once. With `--check` the job fetches
nothing.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forebay_client.cli.admin_client import AdminClient, api_path
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.command_files import KeyFile, key_file, read_pieces
from forebay_client.cli.job_run import run_job
from forebay_client.cli.s3_location import SCHEMES, Location

GLOB_MARKS = "*?"


@dataclass(frozen=True, slots=True)
class WarmRequest:
    """The objects of a job, and the fields of POST /v1/jobs that bound it."""

    locations: Sequence[Location]
    key_files: Sequence[KeyFile]
    columns: str | None
    """The columns of an inventory."""
    is_literal: bool
    """Whether `*` and `?` stand for themselves."""
    bounds: Mapping[str, object]
    recording: str | None = None
    """s3://bucket/name, or the name alone."""
    plan: str | None = None
    """Likewise, or its id."""


def warm(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay warm`."""
    files = [key_file(args.keys, "keys")] if args.keys is not None else []
    files += [key_file(args.manifest, args.format)] if args.manifest is not None else []
    _check_usage(args, files)
    bounds = {
        "concurrency": args.concurrency,
        "check": args.check or None,
        "if_fits": args.if_fits or None,
        "rate": args.rate,
        "until": args.until,
        "newer_than": args.newer_than,
        "pin": args.pin or None,
    }
    request = WarmRequest(
        args.location,
        files,
        args.columns,
        args.literal,
        {name: value for name, value in bounds.items() if value is not None},
        args.recording,
        args.plan,
    )
    fields = _order_fields(admin, context, request)
    follow = args.wait or args.check
    return run_job(admin, context, api_path("jobs"), fields, follow=follow, report=args.report, as_json=args.json)


def _check_usage(args: argparse.Namespace, files: list[KeyFile]) -> None:
    is_ordered = args.recording is not None or args.plan is not None
    if not args.location and not files and not is_ordered:
        raise UsageError(
            "Say what to warm: s3://bucket/prefix, --keys FILE, --manifest FILE, --recording NAME or --plan NAME."
        )
    if is_ordered:
        _check_order(args, files)
    if files and (len(args.location) > 1 or any(each.prefix for each in args.location)):
        raise UsageError("With --keys or --manifest, name the bucket of the keys that name none: s3://bucket.")
    if args.if_fits and files:
        raise UsageError("--if-fits needs a prefix: the sizes of a list of keys are not known before.")
    if args.pin and (files or args.check or (not args.literal and any(map(_is_glob, args.location)))):
        raise UsageError("--pin is for prefixes: not for a list, a glob or a check.")
    if args.newer_than is not None and files:
        raise UsageError("--newer-than needs a prefix or a glob: a list of keys has no dates.")
    fetching = (args.concurrency, args.rate, args.until, args.if_fits or None, args.report)
    if args.check and any(each is not None for each in fetching):
        raise UsageError(
            "--check fetches nothing; it has no --concurrency, --rate, --until, --if-fits and no --report."
        )
    if args.report is not None and not args.wait:
        raise UsageError("--report is written at the job's end: it needs --wait, or `forebay jobs show ID --report`.")
    if args.manifest is None and (args.format is not None or args.columns is not None):
        raise UsageError("--format and --columns describe a manifest: --manifest FILE.")
    if args.columns is not None and args.format != "s3-inventory":
        raise UsageError("--columns are those of an inventory: --format s3-inventory.")


def _check_order(args: argparse.Namespace, files: list[KeyFile]) -> None:
    """Checks the order of a recording or a plan. Raises UsageError."""
    if files or (args.recording is not None and args.plan is not None):
        raise UsageError("A job has one of --recording, --plan, and lists.")
    if len(args.location) > 1 or any(each.prefix for each in args.location):
        raise UsageError("With --recording or --plan the location is the bucket alone: s3://bucket.")
    if args.recording is not None and not args.location and not args.recording.startswith(SCHEMES):
        raise UsageError("Say in which bucket: `forebay warm s3://bucket --recording NAME`.")
    if args.if_fits or args.pin or args.newer_than is not None:
        raise UsageError("--if-fits, --pin and --newer-than need a prefix: not a recording or a plan.")


def _order_fields(admin: AdminClient, context: CommandContext, request: WarmRequest) -> dict[str, object]:
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
    globs = [each for each in request.locations if not request.is_literal and _is_glob(each)]
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


def _is_glob(location: Location) -> bool:
    """Whether the prefix has a wildcard."""
    return any(mark in location.prefix for mark in GLOB_MARKS)
