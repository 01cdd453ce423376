"""`forebay flush`: waits until the acknowledged writes under a prefix are at the origin."""

from typing import Final

from forebay_client.cli.admin_client import AdminClient, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.human_format import escape_unprintable, format_plural
from forebay_client.cli.s3_location import Location

ONE_WAIT: Final = 5.0
"""Seconds that one request waits, so that Ctrl-C and a lost connection are noticed."""
_STOPPED: Final = ("stuck", "conflict")
"""States that a person ends."""
_UNDER_WAY: Final = ("sending", "failing")
"""States that end by themselves."""


def run_flush(
    admin: AdminClient, context: CommandContext, location: Location, timeout: float | None, *, as_json: bool
) -> int:
    """Wait, for `timeout` seconds at most (None: no bound). The exit code: 1 if some are not there, or are stuck."""
    until = context.monotonic() + timeout if timeout is not None else None
    where = {"bucket": location.bucket, "prefix": location.prefix}
    before = ""
    while True:
        wait = ONE_WAIT if until is None else max(0.0, min(ONE_WAIT, until - context.monotonic()))
        flushed = admin.post(api_path("flush"), {**where, "wait": wait, "before": before})
        left, before = flushed["left"], flushed["before"]
        if not left or (until is not None and context.monotonic() >= until) or _is_stuck(admin, location.bucket):
            break
    name = escape_unprintable(str(location))
    if as_json:
        context.screen.write_json({"left": left})
    elif left:
        why = f"; see `forebay writes ls s3://{escape_unprintable(location.bucket)}/`"
        context.screen.write_error(f"Not at the origin under {name}: {format_plural(left, 'write')}{why}.")
    else:
        context.screen.write_line(f"All writes under {name} are at the origin.")
    return 1 if left else 0


def _is_stuck(admin: AdminClient, bucket: str) -> bool:
    """Whether nothing moves in a bucket until a person does something: each write is stuck or in conflict, or waits."""

    def is_any(state: str) -> bool:
        return bool(admin.get(api_path("writes"), {"bucket": bucket, "state": state, "limit": "1"})["writes"])

    return any(map(is_any, _STOPPED)) and not any(map(is_any, _UNDER_WAY))
