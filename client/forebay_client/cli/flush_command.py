"""`forebay flush`: waits until the acknowledged writes under a prefix are at the origin."""

import argparse
from typing import Any, Final

from forebay_client.cli.admin_client import (
    AdminClient,
    AdminError,
    AdminRefused,
    AdminUnreachable,
    JsonObject,
    api_path,
)
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.human_format import escape_unprintable, format_plural

ONE_WAIT: Final = 5.0
"""Seconds that one request waits, so that Ctrl-C and a lost connection are noticed."""


def flush(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay flush`. Waits until nothing that is left moves, `--timeout` seconds at most. Returns the exit code: 1 if
    some writes are not at the origin."""
    location, timeout = args.location, args.timeout
    until = context.monotonic() + timeout if timeout is not None else None
    where = {"bucket": location.bucket, "prefix": location.prefix}
    flushed: JsonObject | None = None
    found, has_ended = 0, False
    while True:
        wait, before = 0.0, ""  # the first answer only says what is pending
        if flushed is not None:
            wait = ONE_WAIT if until is None else max(0.0, min(ONE_WAIT, until - context.monotonic()))
            before = flushed["before"]
        try:
            answer = admin.post(api_path("flush"), {**where, "wait": wait, "before": before})
            found = answer["found"] if flushed is None else found
            flushed = answer
        except AdminError as error:
            if flushed is None or not _is_ending(error):
                raise
            has_ended = True
        left, held_up = flushed["left"], flushed["held_up"]
        if has_ended or left == held_up or (until is not None and context.monotonic() >= until):
            break
    name = escape_unprintable(str(location))
    if args.json:
        context.screen.write_json({"left": left, "held_up": held_up, "stuck": flushed["stuck"], "found": found})
    elif left:
        for each in flushed["stuck"]:
            context.screen.write_error(f"held up by  {_describe(each)}")
        left_there = f"Not at the origin under {name}: {format_plural(left, 'write')}"
        if has_ended:
            context.screen.write_error(f"{left_there}. Forebay has ended; its next start carries them out.")
        else:
            see = f"`forebay writes ls s3://{escape_unprintable(location.bucket)}/`"
            context.screen.write_error(f"{left_there}. {_who_moves_them(left, held_up)}: {see}.")
    elif found:
        writes = format_plural(found, "write")
        context.screen.write_line(f"All writes under {name} are at the origin: {writes} had been pending.")
    else:
        context.screen.write_line(f"No write is pending under {name}.")
    return 1 if left else 0


def _is_ending(error: AdminError) -> bool:
    """Whether Forebay ends: it does not answer, or has no worker any more."""
    return isinstance(error, AdminUnreachable) or (isinstance(error, AdminRefused) and error.status == 503)


def _who_moves_them(left: int, held_up: int) -> str:
    """Says what the writes wait for that are left."""
    if not held_up:
        return "It goes on by itself" if left == 1 else "They go on by themselves"
    if held_up < left:
        return f"{held_up} of them wait until a person has dealt with what holds them up"
    return f"A person has to deal with {'it' if left == 1 else 'what holds them up'}"


def _describe(stuck: dict[str, Any]) -> str:
    name = f"s3://{stuck['bucket']}/{stuck['key']}"
    return f"{stuck['id']}  {escape_unprintable(name)}: {escape_unprintable(stuck['reason'])}"
