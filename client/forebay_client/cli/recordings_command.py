"""`forebay recordings`: lists recordings, names, exports, imports, replays and removes them."""

import argparse
import os
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.command_files import read_file, write_file
from forebay_client.cli.human_format import escape_unprintable, format_plural, format_size
from forebay_client.cli.job_run import run_job
from forebay_client.cli.text_tables import recordings_table


def recordings(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay recordings`. Returns the exit code; of `replay --wait` that of `forebay warm --wait`."""
    if (problem := _usage_problem(args)) is not None:
        raise UsageError(problem)
    return _RUN[args.action](admin, context, args)


def _usage_problem(args: argparse.Namespace) -> str | None:
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
    if action != "export" and args.force:
        return "--force belongs to `forebay recordings export`."
    if action != "replay" and (args.rate is not None or args.concurrency is not None or args.wait):
        return "--rate, --concurrency and --wait belong to `forebay recordings replay`."
    return None


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
    if not args.force and os.path.lexists(args.file):
        raise UsageError(f"{args.file} exists; --force writes over it.")
    pieces, offset = bytearray(), 0
    while True:
        part = admin.get(_path(args), {"offset": str(offset)})
        pieces += b64decode(part["content"])
        if part["next"] is None:
            break
        offset = part["next"]
    write_file(args.file, (bytes(pieces),))
    return _report(context, args, part["recording"], "Exported")


def _import(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    content = read_file(args.file)
    stored = admin.put(_path(args), {"content": b64encode(content).decode()})
    return _report(context, args, stored["recording"], "Imported")


def _replay(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    bounds = {"rate": args.rate, "concurrency": args.concurrency}
    fields = {name: each for name, each in bounds.items() if each is not None}
    return run_job(admin, context, _path(args, "replay"), fields, follow=args.wait, as_json=args.json)


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


_RUN: Final[Mapping[str, Callable[[AdminClient, CommandContext, argparse.Namespace], int]]] = {
    "ls": _list,
    "save": _save,
    "export": _export,
    "import": _import,
    "replay": _replay,
    "rm": _remove,
}
