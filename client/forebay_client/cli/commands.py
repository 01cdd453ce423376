"""The short commands: each calls the admin port and prints its response. The others have a module each.

With --json a command prints one JSON object a line: the response, or a row of a table a line.
"""

import argparse
from typing import Final

from forebay_client import __version__
from forebay_client.cli.admin_client import AdminClient, AdminError, api_path
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.command_files import read_file
from forebay_client.cli.human_format import escape_unprintable, format_plural, format_size
from forebay_client.cli.stats_screen import stats_lines

VERSION_TIMEOUT: Final = 2.0
"""Seconds. `forebay version` has printed its own version; the server's is not worth a long wait."""


def version(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay version`."""
    quick = AdminClient(admin.address, admin.token, VERSION_TIMEOUT)
    if not args.json:
        context.screen.write_line(f"forebay {__version__}")
        context.screen.out.flush()
    server: str | None = None
    trouble = ""
    try:
        server = str(quick.get(api_path("stats"))["version"])
    except AdminError as error:
        trouble = str(error)
    if args.json:
        context.screen.write_json({"client": __version__, "server": server})
    else:
        known = f"Forebay {escape_unprintable(server)} runs at {admin.address}." if server is not None else trouble
        context.screen.write_line(known)
    return 0


def stats(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay stats`."""
    stats = admin.get(api_path("stats"))
    if args.json:
        context.screen.write_json(stats)
    else:
        context.screen.write_lines(stats_lines(stats, str(admin.address)))
    return 0


def purge(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay purge`."""
    purged = admin.delete(api_path("cache"), args.location._asdict())
    if args.json:
        context.screen.write_json(purged)
    else:
        objects, size = format_plural(purged["objects"], "object"), format_size(purged["size"])
        context.screen.write_line(f"Purged {objects}, {size}.")
    return 0


def resize(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay resize`."""
    wanted = {tier: text for tier, text in (("memory", args.memory), ("ssd", args.ssd)) if text is not None}
    if not wanted:
        raise UsageError("Say what to resize: --memory SIZE, --ssd SIZE, or both.")
    for tier, text in wanted.items():
        resized = admin.put(api_path("tiers", tier), {"size": text})
        if args.json:
            context.screen.write_json(resized)
        else:
            context.screen.write_line(
                f"The {tier} tier has {format_size(resized['after'])}; it had {format_size(resized['before'])}."
            )
        if resized["warning"] is not None:
            context.screen.write_error(f"Warning: {resized['warning']}.")
    return 0


def reload(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay reload`."""
    if args.file is None:
        answer = admin.post(api_path("config", "reload"), {})
    else:
        answer = admin.put_toml(api_path("config"), read_file(args.file))
    if args.json:
        context.screen.write_json(answer)
        return 0
    if not answer["changed"] and not answer["needs_restart"]:
        context.screen.write_line("Nothing changed.")
    if answer["changed"]:
        context.screen.write_line(f"Changed: {', '.join(answer['changed'])}.")
    if answer["needs_restart"]:
        context.screen.write_line(f"Needs a restart: {', '.join(answer['needs_restart'])}.", "yellow")
    for warning in answer.get("warnings", ()):
        context.screen.write_error(f"Warning: {warning}.")
    return 0
