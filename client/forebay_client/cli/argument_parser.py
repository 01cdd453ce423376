"""The parser of the command line: the proxy's own commands, and those of the table (command_table).

A test compares the pages of docs/cli with it.
"""

import argparse
from collections.abc import Callable
from typing import Final

from forebay_client import __version__
from forebay_client.cli.argument_types import admin_address, endpoint, worker_count
from forebay_client.cli.command_parser import CommandParser
from forebay_client.cli.command_table import COMMANDS


def make_parser(only: str | None = None) -> argparse.ArgumentParser:
    """The parser of the whole command line; of one command if `only` names it."""
    parser = argparse.ArgumentParser(
        prog="forebay",
        description="A caching proxy for object storage that runs beside the compute.",
        epilog="Exit codes: 0 done, 1 failed, 2 wrong usage; of warm-up jobs also 3 to 5 (docs/cli/filling.md).",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"forebay {__version__}", help="show the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=CommandParser)
    for name in [only] if only in COMMAND_NAMES else COMMAND_NAMES:
        if name in _OWN_COMMANDS:
            text, add_arguments = _OWN_COMMANDS[name]
            add_arguments(commands.add_parser(name, help=text, description=text, allow_abbrev=False))
        else:
            text, arguments = COMMANDS[name].help, COMMANDS[name].arguments
            shared = [_shared_options()]
            added = commands.add_parser(name, help=text, description=text, parents=shared, allow_abbrev=False)
            for argument, settings in arguments:
                added.add_argument(argument, **settings)
    return parser


def _add_serve(serve: argparse.ArgumentParser) -> None:
    # No defaults here: what is absent comes from the file, the environment or the settings' own defaults.
    serve.add_argument("--config", metavar="FILE", help="the configuration, a TOML file")
    serve.add_argument("--origin", metavar="URL", help="the object store behind Forebay")
    serve.add_argument("--region", metavar="R", help="the origin's region")
    serve.add_argument("--listen", metavar="HOST:PORT", help="where clients connect (default: 127.0.0.1:9000)")
    serve.add_argument("--admin", metavar="HOST:PORT", help="where the admin port is (default: 127.0.0.1:9001)")
    serve.add_argument("--memory", metavar="SIZE", help="size of the memory tier, e.g. 4GiB")
    serve.add_argument("--ssd", metavar="DIR", help="directory of the SSD tier")
    serve.add_argument("--ssd-size", metavar="SIZE", help="size of the SSD tier, e.g. 500GiB")
    serve.add_argument(
        "--workers", type=worker_count, metavar="N", help='worker processes; "auto": one for each core, at most 8'
    )
    serve.add_argument("--open", action="store_true", help="check no signatures; on loopback only")


def _shared_options() -> CommandParser:
    """The options of every command that calls the admin port."""
    shared = CommandParser(add_help=False)
    shared.add_argument(
        "--admin",
        type=admin_address,
        metavar="HOST:PORT",
        help="the address of the admin port (default: FOREBAY_ADMIN, else 127.0.0.1:9001)",
    )
    shared.add_argument("--json", action="store_true", help="print JSON, one object a line")
    return shared


def _add_check_config(check: argparse.ArgumentParser) -> None:
    check.add_argument("file", metavar="FILE", help="the TOML file")
    check.add_argument("--strict", action="store_true", help="fail upon warnings")
    purpose = check.add_mutually_exclusive_group()
    purpose.add_argument(
        "--without-secrets",
        action="store_true",
        help="accept missing variables and files of secrets, for checks without them",
    )
    purpose.add_argument(
        "--try",
        dest="try_out",
        action="store_true",
        help="try the origin, its credential and clock, and the directories",
    )


def _add_check_journal(journal: argparse.ArgumentParser) -> None:
    journal.add_argument("directory", metavar="DIR", help="the journal's directory, `journal.path`")
    export = journal.add_mutually_exclusive_group()
    export.add_argument("--export", metavar="DIR", help="write each pending object to a file of this directory")
    export.add_argument("--export-to", metavar="URL", help="carry the pending writes out at this S3 endpoint, in order")
    journal.add_argument(
        "--force", action="store_true", help="with --export-to: write over objects that are newer than the journal's"
    )


def _add_run(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--endpoint", type=endpoint, metavar="URL", help="where Forebay is; becomes AWS_ENDPOINT_URL of the program"
    )
    run.add_argument(
        "--name", metavar="NAME", help="the name of the job, part of its plans' names (default: from its command line)"
    )
    run.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="the program, and its arguments")


_OWN_COMMANDS: Final[dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]]] = {
    "serve": ("Run the proxy.", _add_serve),
    "check-config": ("Check a configuration file.", _add_check_config),
    "check-journal": (
        "Verify a journal without a running Forebay, and export what is pending.",
        _add_check_journal,
    ),
    "doctor": ("Check the configuration, the origin and the machine, as `serve` would use them.", _add_serve),
    "demo": (
        "Read sample data cold, warm and after a restart, from an object store in temporary files.",
        lambda _: None,
    ),
    "run": ("Run a training script unchanged, and send the order of its DataLoaders as plans.", _add_run),
}
"""The commands that call no admin port: their help, and the function that adds their arguments."""
COMMAND_NAMES: Final = (*_OWN_COMMANDS, *COMMANDS)
PROXY_COMMANDS: Final = frozenset(_OWN_COMMANDS) - {"run"}
"""The commands that run the proxy itself, instead of calling a running one."""
