"""The commands that ask the admin port and say what it answered. Each gives the exit code.

With `--json` they print one JSON object a line: what the server said, a row of a table a line.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from forebay_client import __version__
from forebay_client.admin import Admin, AdminError, Answer, path
from forebay_client.quantities import counted, size, visible
from forebay_client.stats import stats_lines
from forebay_client.surroundings import Surroundings
from forebay_client.tables import LISTING, cached_row, heading, jobs_table
from forebay_client.top import top
from forebay_client.warming import keys_in, order, warm

Command: TypeAlias = Callable[[Admin, Surroundings, argparse.Namespace], int]

VERSION_TIMEOUT: Final = 2.0
"""Seconds. `forebay version` has said what it knows itself; nobody waits long for the rest."""


class UsedWrongly(Exception):
    """What was typed makes no sense; the message is a sentence. Exit code 2."""


def _version(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    asked = Admin(admin.address, admin.token, VERSION_TIMEOUT)
    if not args.json:
        around.screen.line(f"forebay {__version__}")
        around.screen.out.flush()
    server: str | None = None
    trouble = ""
    try:
        server = str(asked.get(path("stats"))["version"])
    except AdminError as error:
        trouble = str(error)
    if args.json:
        around.screen.document({"client": __version__, "server": server})
    else:
        known = f"Forebay {visible(server)} runs at {admin.address}." if server is not None else trouble
        around.screen.line(known)
    return 0


def _stats(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    stats = admin.get(path("stats"))
    if args.json:
        around.screen.document(stats)
    else:
        around.screen.lines(stats_lines(stats, str(admin.address)))
    return 0


def _top(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    return top(admin, around, args.interval, as_json=args.json)


def _warm(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    keys = _keys(around, args.keys) if args.keys is not None else None
    if keys is not None and args.location.prefix:
        raise UsedWrongly("With --keys the location is a bucket alone: the list holds whole keys.")
    if keys == []:
        raise UsedWrongly(f"There is no key in {args.keys}.")
    fields = order(args.location, keys, args.concurrency)
    return warm(admin, around, fields, wait=args.wait, as_json=args.json)


def _keys(around: Surroundings, name: str) -> list[str]:
    try:
        if name == "-":
            return keys_in(around.stdin)
        with Path(name).open(encoding="utf-8", newline="\n") as lines:
            return keys_in(lines)
    except OSError as error:
        raise UsedWrongly(f"{name} can't be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsedWrongly(f"{name} is not UTF-8, as keys are.") from error


def _jobs(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    jobs: list[Answer] = admin.get(path("jobs"))["jobs"]
    if args.json:
        for job in jobs:
            around.screen.document(job)
    elif jobs:
        around.screen.lines(jobs_table(jobs, around.wall()))
    else:
        around.screen.complain("There are no jobs since Forebay was started.")
    return 0


def _ls(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    query = {"bucket": args.location.bucket, "prefix": args.location.prefix}
    screen, found, held = around.screen, 0, 0
    after: str | None = ""
    while after is not None:
        listing = admin.get(path("cache"), {**query, "after": after} if after else query)
        for cached in listing["objects"]:
            if args.json:
                screen.document(cached)
            else:
                if not found:
                    screen.lines([heading(LISTING)])
                screen.line(cached_row(cached, around.wall()))
            found += 1
            held += cached["cached"]
        screen.out.flush()
        after = listing["next"]
    if args.json:
        return 0
    if not found:
        screen.complain(f"Nothing of {visible(str(args.location))} is cached.")
    elif screen.is_terminal:
        screen.line(f"{counted(found, 'object')}, {size(held)} cached", "dim")
    return 0


def _purge(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    purged = admin.delete(path("cache"), {"bucket": args.location.bucket, "prefix": args.location.prefix})
    if args.json:
        around.screen.document(purged)
    else:
        around.screen.line(f"Purged {counted(purged['objects'], 'object')}, {size(purged['size'])}.")
    return 0


def _resize(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    wanted = {tier: text for tier, text in (("memory", args.memory), ("ssd", args.ssd)) if text is not None}
    if not wanted:
        raise UsedWrongly("Say what to resize: --memory SIZE, --ssd SIZE, or both.")
    for tier, text in wanted.items():
        resized = admin.put(path("tiers", tier), {"size": text})
        if args.json:
            around.screen.document(resized)
        else:
            around.screen.line(f"The {tier} tier holds {size(resized['after'])} now, {size(resized['before'])} before.")
    return 0


def _reload(admin: Admin, around: Surroundings, args: argparse.Namespace) -> int:
    if args.file is None:
        answer = admin.post(path("config", "reload"), {})
    else:
        try:
            toml = Path(args.file).read_bytes()
        except OSError as error:
            raise UsedWrongly(f"{args.file} can't be read: {error.strerror}.") from error
        answer = admin.put_toml(path("config"), toml)
    if args.json:
        around.screen.document(answer)
        return 0
    if not answer["changed"] and not answer["needs_restart"]:
        around.screen.line("Nothing changed.")
    if answer["changed"]:
        around.screen.line(f"Changed: {', '.join(answer['changed'])}.")
    if answer["needs_restart"]:
        around.screen.line(f"Needs a restart: {', '.join(answer['needs_restart'])}.", "yellow")
    return 0


COMMANDS: Final[dict[str, Command]] = {
    "stats": _stats,
    "top": _top,
    "warm": _warm,
    "jobs": _jobs,
    "ls": _ls,
    "purge": _purge,
    "resize": _resize,
    "reload": _reload,
    "version": _version,
}
