"""`forebay writes`: the writes that are acknowledged and not at the origin; retries, exports or discards one."""

import argparse
import os
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, ScreenLine, UsageError
from forebay_client.cli.command_files import write_file
from forebay_client.cli.human_format import escape_unprintable, format_age, format_count, format_plural, format_size
from forebay_client.cli.s3_location import SCHEMES, InvalidLocation, Location, parse_location
from forebay_client.cli.text_tables import Column, table

WRITES: Final = (
    Column("WRITE"),
    Column("STATE"),
    Column("KIND"),
    Column("SIZE", right=True),
    Column("AGE", right=True),
    Column("TRIES", right=True),
    Column("OBJECT"),
)


def writes(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay writes`."""
    if (problem := _usage_problem(args)) is not None:
        raise UsageError(problem)
    return _RUN[args.action](admin, context, args)


def _usage_problem(args: argparse.Namespace) -> str | None:
    action = args.action
    if action == "ls":
        if args.force:
            return "--force belongs to `forebay writes export`."
        if args.file is not None:
            return "`forebay writes ls` has a location, but no file."
        return _location_problem(args.write) if args.write is not None else None
    if args.state is not None:
        return "--state belongs to `forebay writes ls`."
    if args.force and action != "export":
        return "--force belongs to `forebay writes export`."
    if args.write is None or args.write.startswith(SCHEMES):
        more = {"export": " FILE", "discard": " s3://bucket/key"}.get(action, "")
        return f"Name a write by its id: `forebay writes {action} ID{more}`."
    if (action == "export") != (args.file is not None and not args.file.startswith(SCHEMES)):
        return "Name a file: `forebay writes export ID FILE`." if action == "export" else f"`{action}` has no file."
    if (action == "discard") != (args.file is not None and args.file.startswith(SCHEMES)):
        return "Name the object too: `forebay writes discard ID s3://bucket/key`. Its bytes are lost by that."
    return _location_problem(args.file) if action == "discard" else None


def _location_problem(text: str) -> str | None:
    try:
        parse_location(text)
    except InvalidLocation as invalid:
        return f"{invalid}."
    return None


def _list(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    bucket, prefix = parse_location(args.write) if args.write is not None else Location("", "")
    found: list[JsonObject] = list(_pages(admin, {"bucket": bucket, "prefix": prefix, "state": args.state or ""}))

    def lines() -> Iterator[ScreenLine]:
        yield from table(WRITES, [_row(context, write) for write in found])
        yield ScreenLine(
            f"{format_plural(len(found), 'write')} of {format_size(sum(write['size'] for write in found))}."
        )

    none = "No such writes are pending." if args.write or args.state else "No writes are pending."
    context.screen.write_rows(found, lines, none, as_json=args.json)
    return 0


def _pages(admin: AdminClient, query: Mapping[str, str]) -> Iterator[JsonObject]:
    after: str | None = ""
    while after is not None:
        page = admin.get(api_path("writes"), {**query, "after": after})
        yield from page["writes"]
        after = page["next"]


def _row(context: CommandContext, write: JsonObject) -> Sequence[str]:
    return (
        write["id"],
        write["state"],
        write["kind"],
        format_size(write["size"]),
        format_age(context.wall_clock() - write["accepted_at"]),
        format_count(write["attempts"]),
        escape_unprintable(f"s3://{write['bucket']}/{write['key']}"),
    )


def _show(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    write = admin.get(api_path("writes", args.write))
    if args.json:
        context.screen.write_json(write)
        return 0
    context.screen.write_lines(table(WRITES, [_row(context, write)]))
    if write["reason"]:
        context.screen.write_line(f"The last attempt failed: {escape_unprintable(write['reason'])}.")
    if write["waits_for"]:
        context.screen.write_line(f"It waits for {write['waits_for']}, which was acknowledged before.")
    if write["parts"]:
        context.screen.write_line(f"It has {format_plural(write['parts'], 'part')}.")
    if write["etag"]:
        context.screen.write_line(f"ETag: {escape_unprintable(write['etag'])}")
    for name, value in write["headers"]:
        context.screen.write_line(escape_unprintable(f"{name}: {value}"))
    return 0


def _retry(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    answer = admin.post(api_path("writes", args.write, "retry"), {})
    return _report(context, args, answer["write"], "Tried again")


def _discard(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    bucket, key = parse_location(args.file)
    answer = admin.delete(api_path("writes", args.write), {"bucket": bucket, "key": key})
    return _report(context, args, answer["write"], "Discarded")


def _export(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    if not args.force and os.path.lexists(args.file):
        raise UsageError(f"{args.file} exists; --force writes over it.")
    write = admin.get(api_path("writes", args.write))
    write_file(args.file, _contents(admin, args.write))
    return _report(context, args, write, "Exported")


def _contents(admin: AdminClient, write: str) -> Iterator[bytes]:
    offset: int | None = 0
    while offset is not None:
        part = admin.get(api_path("writes", write, "content"), {"offset": str(offset)})
        yield b64decode(part["content"])
        offset = part["next"]


def _report(context: CommandContext, args: argparse.Namespace, write: JsonObject, done: str) -> int:
    if args.json:
        context.screen.write_json(write)
    else:
        name = escape_unprintable(f"s3://{write['bucket']}/{write['key']}")
        context.screen.write_line(f"{done}: {write['kind']} of {name}, {format_size(write['size'])}.")
    return 0


_RUN: Final[Mapping[str, Callable[[AdminClient, CommandContext, argparse.Namespace], int]]] = {
    "ls": _list,
    "show": _show,
    "retry": _retry,
    "export": _export,
    "discard": _discard,
}
