"""`forebay plans`: lists the plans that clients have sent, shows one, cancels one, or sends one in a client's name."""

import argparse
from base64 import b64encode
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.human_format import escape_unprintable, format_age, format_count, format_plural, format_size
from forebay_client.cli.s3_location import SCHEMES, parse_location
from forebay_client.cli.text_tables import Column, table

PLANS: Final = (
    Column("PLAN"),
    Column("STATE"),
    Column("READ", right=True),
    Column("LATE", right=True),
    Column("FAILED", right=True),
    Column("LEAD", right=True),
    Column("SECONDS", right=True),
    Column("KEY"),
    Column("WHAT"),
)
_RESOURCE: Final = ".forebay/plans/"
_LIVE: Final = ("queued", "running", "idle")


class UnusablePlan(Exception):
    """A plan can't be read, or its location is none; the message is a sentence."""


def problem_with(args: argparse.Namespace) -> str | None:
    """What is contradictory in a command line, as a sentence; None: nothing."""
    if args.action == "send":
        if args.id is None or args.file is None:
            return "Say `forebay plans send s3://bucket/name FILE`."
        return None
    if args.file is not None or args.key is not None:
        return "A file and --key belong to `forebay plans send`."
    if (args.action == "ls") != (args.id is None):
        return "Say `forebay plans`, or `forebay plans` with show or cancel, and an ID or s3://bucket/name."
    return None


def send_plan(
    admin: AdminClient, context: CommandContext, target: str, file: str, key: str | None, *, as_json: bool
) -> int:
    """Sends the plan in `file` as `target`, s3://bucket/name. The exit code: 1 if it has no entry that may be read.
    Raises UnusablePlan."""
    try:
        location = parse_location(target)
        content = Path(file).read_bytes()
    except ValueError as error:
        raise UnusablePlan(str(error)) from error
    except OSError as error:
        raise UnusablePlan(f"{file} can't be read: {error.strerror}.") from error
    fields = {
        "bucket": location.bucket,
        "name": location.prefix.removeprefix(_RESOURCE),
        "content": b64encode(content).decode(),
        "key": key or "",
    }
    plan: JsonObject = admin.put(api_path("plans"), fields)["plan"]
    if as_json:
        context.screen.write_json(plan)
    else:
        entries = format_plural(plan["entries"], "read")
        context.screen.write_line(
            f"Sent plan {plan['id']}: {entries}, for the key {escape_unprintable(plan['principal'])}."
        )
        if plan["dropped"]:
            context.screen.write_error(
                f"{format_count(plan['dropped'])} keys were left out, which the key may not read."
            )
        elif not plan["entries"]:
            context.screen.write_error(f"{file} names no key: nothing is fetched for this plan.")
    return 0 if plan["entries"] else 1


def run_plans(admin: AdminClient, context: CommandContext, action: str, target: str | None, *, as_json: bool) -> int:
    """Carries out "ls", or "show" or "cancel" of a plan, whose id or s3://bucket/name `target` is. Returns the exit
    code: 1 if a plan to cancel had ended before. Raises UnusablePlan for a location that names no plan, or several."""
    if target is None:
        plans: list[JsonObject] = admin.get(api_path("plans"))["plans"]
    else:
        path = api_path("plans", _plan_id(admin, target) if target.startswith(SCHEMES) else target)
        before = admin.get(path)
        plans = [admin.delete(path) if action == "cancel" else before]
        if action == "cancel" and before["state"] not in _LIVE:
            context.screen.write_error(f"Plan {escape_unprintable(target)} had ended before: {before['state']}.")
            return 1
    if as_json:
        for plan in plans:
            context.screen.write_json(plan)
    elif action == "cancel" and target is not None:
        context.screen.write_line(f"Cancelled plan {escape_unprintable(target)}.")
    elif plans:
        context.screen.write_lines(table(PLANS, [_row(plan) for plan in plans]))
    else:
        context.screen.write_error("There are no plans.")
    if action == "show" and not as_json:
        for plan in plans:
            for line in _details(context, plan):
                context.screen.write_line(line)
    return 0


def _plan_id(admin: AdminClient, target: str) -> str:
    """The id of the plan at the location `target`: the live one, else the one that was sent last."""
    try:
        location = parse_location(target)
    except ValueError as error:
        raise UnusablePlan(str(error)) from error
    named = location.bucket, location.prefix.removeprefix(_RESOURCE)
    found = [plan for plan in admin.get(api_path("plans"))["plans"] if (plan["bucket"], plan["name"]) == named]
    live = [plan for plan in found if plan["state"] in _LIVE]
    if not found:
        raise UnusablePlan(f"There is no plan {escape_unprintable(target)}.")
    if len(live) > 1:
        ids = ", ".join(plan["id"] for plan in live)
        raise UnusablePlan(f"Several access keys have a plan {escape_unprintable(target)}; say its ID: {ids}.")
    return str(max(live or found, key=itemgetter("sent_at"))["id"])


def _row(plan: JsonObject) -> Sequence[str]:
    seconds = plan["lead_seconds"]
    return (
        plan["id"],
        plan["state"],
        f"{format_count(plan['position'])}/{format_count(plan['entries'])}",
        format_count(plan["late"]),
        format_count(plan["failed"]),
        format_size(plan["lead_bytes"]),
        "-" if seconds is None else f"{seconds:.1f}",
        escape_unprintable(plan["principal"]),
        escape_unprintable(f"s3://{plan['bucket']}/.forebay/plans/{plan['name']}"),
    )


def _details(context: CommandContext, plan: JsonObject) -> Sequence[str]:
    return (
        f"Sent {format_age(context.wall_clock() - plan['sent_at'])} ago.",
        f"{format_count(plan['dropped'])} keys were left out, which the key may not read.",
        f"{format_count(plan['read'])} entries were read, and {format_count(plan['given_up'])} left out by the reader.",
        f"{format_count(plan['lead_entries'])} entries are ahead of it.",
        f"{format_count(plan['fetched_blocks'])} blocks were fetched for it, {format_size(plan['fetched_bytes'])}.",
        f"{format_size(plan['useless_bytes'])} of these were dropped unread.",
    )
