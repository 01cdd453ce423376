"""`forebay pin`, `forebay unpin` and `forebay pins`: the prefixes whose objects stay on the SSD."""

import argparse
from collections.abc import Iterator
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, ScreenLine
from forebay_client.cli.human_format import escape_unprintable, format_count, format_plural, format_size
from forebay_client.cli.s3_location import Location
from forebay_client.cli.text_tables import Column, table

PINS: Final = (
    Column("PINNED", right=True),
    Column("SIZE", right=True),
    Column("OBJECTS", right=True),
    Column("STATE"),
    Column("PREFIX"),
)


def pin(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay pin`."""
    pinned = admin.post(api_path("pins"), args.location._asdict())
    if args.json:
        context.screen.write_json(pinned)
    elif pinned["size"] is None:
        context.screen.write_line(f"Pinned {_target(pinned)}; its size is not known yet.")
    else:
        objects = format_plural(pinned["objects"], "object")
        context.screen.write_line(f"Pinned {_target(pinned)}: {objects}, {format_size(pinned['size'])}.")
    return 0


def unpin(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay unpin`."""
    removed = admin.delete(api_path("pins"), args.location._asdict())["removed"]
    if args.json:
        context.screen.write_json(removed)
    else:
        context.screen.write_line(f"Unpinned {_target(removed)}, {format_size(removed['pinned'])}.")
    return 0


def pins(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay pins`."""
    screen, answer = context.screen, admin.get(api_path("pins"))

    def lines() -> Iterator[ScreenLine]:
        yield from table(PINS, [_row(pin) for pin in answer["pins"]])
        yield ScreenLine(f"{format_size(answer['pinned'])} of {format_size(answer['quota'])} are pinned.", "bold")

    screen.write_rows(answer["pins"], lines, "Nothing is pinned.", as_json=args.json)
    return 0


def _row(pin: JsonObject) -> tuple[str, ...]:
    return (
        format_size(pin["pinned"]),
        "-" if pin["size"] is None else format_size(pin["size"]),
        "-" if pin["objects"] is None else format_count(pin["objects"]),
        "over quota" if pin["over_quota"] else "ok",
        _target(pin),
    )


def _target(pin: JsonObject) -> str:
    return escape_unprintable(str(Location(pin["bucket"], pin["prefix"])))
