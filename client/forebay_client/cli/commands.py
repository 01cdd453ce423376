"""The commands that call the admin port and print its response, and the table of them.

A row of `COMMANDS` is a whole command: its function, which returns the exit code, its help, and its arguments beside
--admin and --json. With --json a command prints one JSON object a line: the response, or a row of a table a line.
"""

import argparse
from pathlib import Path
from typing import Final

from forebay_client import __version__
from forebay_client.cli.admin_client import AdminClient, AdminError, api_path
from forebay_client.cli.advise_command import run_advise
from forebay_client.cli.argument_types import interval, location, positive
from forebay_client.cli.client_command import FILE, LOCATION, SIZE, ClientCommand, UsageError
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.datasets_command import run_datasets
from forebay_client.cli.explanation_lines import explanation_lines
from forebay_client.cli.human_format import escape_unprintable, format_plural, format_size
from forebay_client.cli.job_commands import JOB_COMMANDS
from forebay_client.cli.ls_command import run_ls
from forebay_client.cli.pins_command import run_pin, run_pins, run_unpin
from forebay_client.cli.stats_screen import stats_lines
from forebay_client.cli.top_command import run_top
from forebay_client.cli.write_commands import WRITE_COMMANDS

VERSION_TIMEOUT: Final = 2.0
"""Seconds. `forebay version` has printed its own version; the server's is not worth a long wait."""


def _version(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
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


def _stats(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    stats = admin.get(api_path("stats"))
    if args.json:
        context.screen.write_json(stats)
    else:
        context.screen.write_lines(stats_lines(stats, str(admin.address)))
    return 0


def _top(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_top(admin, context, args.interval, as_json=args.json)


def _ls(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_ls(admin, context, args.location, args.sort, args.limit, as_json=args.json)


def _pin(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_pin(admin, context, args.location, as_json=args.json)


def _unpin(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_unpin(admin, context, args.location, as_json=args.json)


def _pins(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_pins(admin, context, as_json=args.json)


def _datasets(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_datasets(admin, context, as_json=args.json)


def _advise(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    return run_advise(admin, context, args.data_set, by_recordings=args.recordings, as_json=args.json)


def _explain(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
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


def _purge(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    purged = admin.delete(api_path("cache"), {"bucket": args.location.bucket, "prefix": args.location.prefix})
    if args.json:
        context.screen.write_json(purged)
    else:
        objects, size = format_plural(purged["objects"], "object"), format_size(purged["size"])
        context.screen.write_line(f"Purged {objects}, {size}.")
    return 0


def _resize(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
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
    return 0


def _reload(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
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
    return 0


_INTERVAL: Final = {"type": interval, "default": 1.0, "metavar": "SECONDS"}
_ORDER: Final = {"choices": ("key", "size", "cached"), "default": "key", "metavar": "ORDER"}

COMMANDS: Final[dict[str, ClientCommand]] = {
    "stats": ClientCommand(
        _stats, "Show the traffic of a running Forebay since its start, and the fill level of its tiers."
    ),
    "top": ClientCommand(
        _top,
        "Show the current traffic of a running Forebay, live, until Ctrl-C.",
        (("--interval", {**_INTERVAL, "help": "time between two updates (default: 1)"}),),
    ),
    **JOB_COMMANDS,
    "ls": ClientCommand(
        _ls,
        "List what is cached: how much of each object, and in which tier.",
        (
            LOCATION,
            ("--sort", {**_ORDER, "help": "key (default), or the largest first: size, cached"}),
            ("--limit", {"type": positive, "metavar": "N", "help": "show so many objects at most"}),
        ),
    ),
    **WRITE_COMMANDS,
    "datasets": ClientCommand(_datasets, "List the data sets: their size, what is cached of them, and their epochs."),
    "advise": ClientCommand(
        _advise,
        "Estimate each data set's hit share under other tier sizes and evictions, and recommend settings.",
        (
            ("data_set", {"nargs": "?", "metavar": "DATA-SET", "help": "a data set's name (default: all)"}),
            (
                "--recordings",
                {"action": "store_true", "help": "use the recorded epochs, not the reads since the start"},
            ),
        ),
    ),
    "pin": ClientCommand(_pin, "Pin a prefix: its objects stay on the SSD once they are there.", (LOCATION,)),
    "unpin": ClientCommand(_unpin, "Unpin a prefix: its objects may be evicted again.", (LOCATION,)),
    "pins": ClientCommand(_pins, "List the pinned prefixes, and the bytes on the SSD of each."),
    "explain": ClientCommand(
        _explain,
        "Explain which rules and grants apply to an object, what is cached of it, and what a read would do now.",
        (
            ("location", {"type": location, "metavar": "s3://bucket/key", "help": "the object"}),
            ("--key", {"metavar": "ID", "help": "the access key that would read it"}),
        ),
    ),
    "purge": ClientCommand(_purge, "Drop objects from the cache. The origin's are not touched.", (LOCATION,)),
    "resize": ClientCommand(
        _resize,
        "Change the size of the tiers while Forebay serves.",
        (
            ("--memory", {**SIZE, "help": "of the memory tier, e.g. 8GiB"}),
            ("--ssd", {**SIZE, "help": "of the SSD tier, e.g. 500GiB"}),
        ),
    ),
    "reload": ClientCommand(
        _reload,
        "Reload the configuration, or load another file.",
        (("file", {**FILE, "nargs": "?", "help": "a TOML file to take instead of the server's own"}),),
    ),
    "version": ClientCommand(_version, "Show the version of this command, and of the Forebay that runs."),
}
