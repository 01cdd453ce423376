"""The commands that call the admin port and print its response, one function each, which returns the exit code.

With --json a command prints one JSON object a line: the response, or a row of a table a line.
"""

import argparse
from pathlib import Path
from typing import Final

from forebay_client import __version__
from forebay_client.cli.admin_client import AdminClient, AdminError, api_path
from forebay_client.cli.advise_command import run_advise
from forebay_client.cli.client_command import UsageError
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.datasets_command import run_datasets
from forebay_client.cli.explanation_lines import explanation_lines
from forebay_client.cli.human_format import escape_unprintable, format_plural, format_size
from forebay_client.cli.ls_command import run_ls
from forebay_client.cli.pins_command import run_pin, run_pins, run_unpin
from forebay_client.cli.stats_screen import stats_lines
from forebay_client.cli.top_command import run_top

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


def top(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay top`."""
    return run_top(admin, context, args.interval, as_json=args.json)


def ls(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay ls`."""
    return run_ls(admin, context, args.location, args.sort, args.limit, as_json=args.json)


def pin(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay pin`."""
    return run_pin(admin, context, args.location, as_json=args.json)


def unpin(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay unpin`."""
    return run_unpin(admin, context, args.location, as_json=args.json)


def pins(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay pins`."""
    return run_pins(admin, context, as_json=args.json)


def datasets(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay datasets`."""
    return run_datasets(admin, context, as_json=args.json)


def advise(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay advise`."""
    return run_advise(admin, context, args.data_set, by_recordings=args.recordings, as_json=args.json)


def explain(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay explain`."""
    if not args.location.prefix:
        raise UsageError("Name an object: s3://bucket/key.")
    query = {"bucket": args.location.bucket, "key": args.location.prefix, "access_key": args.key or ""}
    explanation = admin.get(api_path("explain"), query)
    if args.json:
        context.screen.write_json(explanation)
    else:
        for line in explanation_lines(explanation):
            context.screen.write_line(line)
    return 0


def purge(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay purge`."""
    purged = admin.delete(api_path("cache"), {"bucket": args.location.bucket, "prefix": args.location.prefix})
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
                f"The {tier} tier has {format_size(resized['after'])}, had {format_size(resized['before'])}."
            )
        if resized["warning"] is not None:
            context.screen.write_error(f"Warning: {resized['warning']}.")
    return 0


def reload(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay reload`."""
    if args.file is None:
        answer = admin.post(api_path("config", "reload"), {})
    else:
        try:
            toml = Path(args.file).read_bytes()
        except OSError as error:
            raise UsageError(f"{args.file} can't be read: {error.strerror}.") from error
        answer = admin.put_toml(api_path("config"), toml)
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
