"""The command line: commands, options, and one line of help for each. A test compares docs/cli.md with it."""

import argparse
import math
from collections.abc import Callable
from typing import Final, TypeVar

from forebay_client import __version__
from forebay_client.admin_client import parse_admin_address
from forebay_client.s3_location import parse_location

PROXY_COMMANDS: Final = frozenset({"serve", "check-config", "demo"})
"""The commands that run the proxy itself, instead of calling a running one."""

T = TypeVar("T")


def make_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="forebay",
        description="A caching proxy for object storage that runs beside the compute.",
        epilog="Exit codes: 0 done, 1 failed, 2 used wrongly.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"forebay {__version__}", help="show the version")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def add(name: str, text: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=text, description=text, parents=parents, allow_abbrev=False)

    _add_serve(add("serve", "Run the proxy."))
    check = add("check-config", "Say whether a configuration file would be accepted.")
    check.add_argument("file", metavar="FILE", help="the TOML file")
    add("demo", "Show what Forebay does, with an object store of its own in temporary files.")

    port, table = _admin_option(), _json_option()
    add("stats", "Show what a running Forebay has done and how full it is.", port, table)
    top = add("top", "Show what a running Forebay does, live, until Ctrl-C.", port, table)
    top.add_argument(
        "--interval", type=_seconds, default=1.0, metavar="SECONDS", help="time between two looks (default: 1)"
    )
    warm = add("warm", "Bring objects into the cache before they are read.", port, table)
    _add_location(warm)
    warm.add_argument("--wait", action="store_true", help="stay and show progress; Ctrl-C cancels the job")
    warm.add_argument(
        "--concurrency", type=_positive, metavar="N", help="objects at once, up to 256 (default: the server's)"
    )
    warm.add_argument("--keys", metavar="FILE", help="warm the keys in this file, one a line; '-' is standard input")
    add("jobs", "List the warm-ups that run, and the latest that ended.", port, table)
    _add_location(add("ls", "List what is cached: how much of each object, and in which tier.", port, table))
    _add_location(add("purge", "Drop objects from the cache. The origin's are not touched.", port, table))
    resize = add("resize", "Give the tiers another size while Forebay serves.", port, table)
    resize.add_argument("--memory", metavar="SIZE", help="of the memory tier, e.g. 8GiB")
    resize.add_argument("--ssd", metavar="SIZE", help="of the SSD tier, e.g. 500GiB")
    load = add("reload", "Have Forebay read its configuration again, or take another one.", port, table)
    load.add_argument("file", nargs="?", metavar="FILE", help="a TOML file to take instead of the server's own")
    add("version", "Show the version of this command, and of the Forebay that runs.", port, table)
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
        "--workers", type=_workers, metavar="N", help='worker processes; "auto": one for each core, at most 8'
    )
    serve.add_argument("--open", action="store_true", help="check no signatures; on loopback only")


def _admin_option() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--admin",
        type=_argument_type(parse_admin_address),
        metavar="HOST:PORT",
        help="the admin port to ask (default: FOREBAY_ADMIN, else 127.0.0.1:9001)",
    )
    return shared


def _json_option() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--json", action="store_true", help="print JSON, one object a line")
    return shared


def _add_location(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "location", type=_argument_type(parse_location), metavar="s3://bucket/prefix", help="which objects"
    )


def _argument_type(parse: Callable[[str], T]) -> Callable[[str], T]:
    """`parse` as an argument's type: argparse shows the message of ArgumentTypeError, and hides a ValueError's."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


def _number(text: str, least: int) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of {least} or more")
    return int(text)


def _workers(text: str) -> int | str:
    return text if text == "auto" else _number(text, 0)


def _positive(text: str) -> int:
    return _number(text, 1)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.1 to 3600")
    return seconds
