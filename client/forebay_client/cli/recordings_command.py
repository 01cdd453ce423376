"""`forebay recordings`: lists recordings, names, exports, imports, replays and removes them."""

import argparse
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.deferred_interrupts import defer_interrupts
from forebay_client.cli.human_format import escape_unprintable, format_plural, format_size
from forebay_client.cli.job_report import exit_code, report_job
from forebay_client.cli.text_tables import recordings_table
from forebay_client.cli.warm_command import follow_job


class UnusableFile(Exception):
    """A file can't be read or written; the message is a sentence."""


def problem_with(args: argparse.Namespace) -> str | None:
    """What is contradictory in a command line, as a sentence; None: nothing."""
    action = args.action
    if action == "ls":
        return "`forebay recordings ls` has a bucket at most: s3://bucket." if args.file is not None else None
    if args.location is None or not args.location.prefix:
        file = " FILE" if action in {"export", "import"} else ""
        return f"Name a recording: `forebay recordings {action} s3://bucket/name{file}`."
    if (action in {"export", "import"}) != (args.file is not None):
        return f"`forebay recordings {action}` needs a file." if args.file is None else f"`{action}` has no file."
    if action != "save" and (args.source is not None or args.shared):
        return "--from and --shared belong to `forebay recordings save`."
    if action != "replay" and (args.rate is not None or args.concurrency is not None or args.wait):
        return "--rate, --concurrency and --wait belong to `forebay recordings replay`."
    return None


def run_recordings(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """Carries out an action. The exit code; of `replay --wait` that of `forebay warm --wait`. Raises UnusableFile."""
    return _RUN[args.action](admin, context, args)


def _path(args: argparse.Namespace, *names: str) -> str:
    return api_path("recordings", args.location.bucket, args.location.prefix, *names)


def _list(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    bucket = args.location.bucket if args.location is not None else ""
    found: list[JsonObject] = admin.get(api_path("recordings"), {"bucket": bucket})["recordings"]
    if args.location is not None and args.location.prefix:
        found = [each for each in found if str(each["name"]).startswith(args.location.prefix)]
    context.screen.write_rows(
        found, lambda: recordings_table(found, context.wall_clock()), "There are no recordings.", as_json=args.json
    )
    return 0


def _save(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    fields = {"source": args.source or "", "shared": args.shared}
    return _report(context, args, admin.post(_path(args, "save"), fields)["recording"], "Saved")


def _export(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    pieces, offset = bytearray(), 0
    while True:
        part = admin.get(_path(args), {"offset": str(offset)})
        pieces += b64decode(part["content"])
        if part["next"] is None:
            break
        offset = part["next"]
    _write(args.file, bytes(pieces))
    return _report(context, args, part["recording"], "Exported")


def _import(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    try:
        content = Path(args.file).read_bytes()
    except OSError as error:
        raise UnusableFile(f"{args.file} can't be read: {error.strerror}.") from error
    stored = admin.put(_path(args), {"content": b64encode(content).decode()})
    return _report(context, args, stored["recording"], "Imported")


def _replay(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    job: JsonObject | None = None
    try:
        # An interrupt between the request and its response would leave a job whose id is not known.
        with defer_interrupts():
            bounds = {"rate": args.rate, "concurrency": args.concurrency}
            job = admin.post(_path(args, "replay"), {name: each for name, each in bounds.items() if each is not None})
        if args.wait:
            job = follow_job(admin, context, job, as_json=args.json)
    except KeyboardInterrupt:
        if job is None:
            raise
        job = admin.delete(api_path("jobs", job["id"]))
    if args.json:
        context.screen.write_json(job)
    else:
        report_job(context.screen, job)
    return exit_code(job)


def _remove(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return _report(context, args, admin.delete(_path(args))["recording"], "Removed")


def _report(context: CommandContext, args: argparse.Namespace, recording: JsonObject, done: str) -> int:
    if args.json:
        context.screen.write_json(recording)
        return 0
    name = escape_unprintable(f"s3://{recording['bucket']}/{recording['name']}")
    reads, size = format_plural(recording["reads"], "read"), format_size(recording["size"])
    context.screen.write_line(f"{done} {name}: {reads} of {size}.")
    return 0


def _write(name: str, content: bytes) -> None:
    """Writes a file whole, or leaves what was there."""
    path = Path(name)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise UnusableFile(f"{name} can't be written: {error.strerror}.") from error


_RUN: Final[Mapping[str, Callable[[AdminClient, CommandContext, argparse.Namespace], int]]] = {
    "ls": _list,
    "save": _save,
    "export": _export,
    "import": _import,
    "replay": _replay,
    "rm": _remove,
}
