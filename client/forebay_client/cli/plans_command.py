"""`forebay plans`: lists the plans that clients have sent, shows one, cancels one, or sends one in a client's name."""

import argparse
from base64 import b64encode
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from forebay_client.cli.admin_client import AdminClient, AdminRefused, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.command_files import read_file
from forebay_client.cli.human_format import escape_unprintable, format_age, format_count, format_plural, format_size
from forebay_client.cli.s3_location import SCHEMES, InvalidLocation, Location, parse_location
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


def plans(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay plans`. Returns the exit code: 1 if a plan to cancel had ended before, or if the key may read nothing of
    the plan that was sent."""
    if args.action == "send":
        if args.id is None or args.file is None:
            raise UsageError("Say `forebay plans send s3://bucket/name FILE`.")
        return _send(admin, context, args)
    if args.file is not None or args.key is not None:
        raise UsageError("A file and --key belong to `forebay plans send`.")
    if (args.action == "ls") != (args.id is None):
        raise UsageError("Say `forebay plans`, or `forebay plans` with show or cancel, and an ID or s3://bucket/name.")
    return _show(admin, context, args.action, args.id, as_json=args.json)


def _send(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    location = _location(args.id)
    content = read_file(args.file)
    fields = {
        "bucket": location.bucket,
        "name": location.prefix.removeprefix(_RESOURCE),
        "content": b64encode(content).decode(),
        "key": args.key or "",
    }
    plan: JsonObject = admin.put(api_path("plans"), fields)["plan"]
    if args.json:
        context.screen.write_json(plan)
    else:
        entries = format_plural(plan["entries"], "read")
        context.screen.write_line(
            f"Sent plan {plan['id']}: {entries}, for the key {escape_unprintable(plan['principal'])}."
        )
        if plan["dropped"]:
            context.screen.write_error(
                f"Left out: {format_plural(plan['dropped'], 'object')} that the key may not read."
            )
        elif not plan["entries"]:
            context.screen.write_error(f"{args.file} names no key: nothing is fetched for this plan.")
    return 0 if plan["entries"] else 1


def _show(admin: AdminClient, context: CommandContext, action: str, target: str | None, *, as_json: bool) -> int:
    """Carries out "ls", or "show" or "cancel" of the plan whose id or s3://bucket/name is `target`."""
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
    location = _location(target)
    named = location.bucket, location.prefix.removeprefix(_RESOURCE)
    found = [plan for plan in admin.get(api_path("plans"))["plans"] if (plan["bucket"], plan["name"]) == named]
    live = [plan for plan in found if plan["state"] in _LIVE]
    if not found:
        raise AdminRefused(404, "no_such_plan", f"There is no plan {escape_unprintable(target)}.")
    if len(live) > 1:
        ids = ", ".join(plan["id"] for plan in live)
        raise UsageError(f"Several access keys have a plan {escape_unprintable(target)}; say its ID: {ids}.")
    return str(max(live or found, key=itemgetter("sent_at"))["id"])


def _location(target: str) -> Location:
    try:
        return parse_location(target)
    except InvalidLocation as error:
        raise UsageError(str(error)) from error


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
    fetched = f"{format_plural(plan['fetched_blocks'], 'block')}, {format_size(plan['fetched_bytes'])}"
    return (
        f"Sent {format_age(context.wall_clock() - plan['sent_at'])} ago.",
        f"Left out of it: {format_plural(plan['dropped'], 'object')} that its key may not read.",
        f"Its reader has read {format_count(plan['read'])} entries, and passed over {format_count(plan['given_up'])}.",
        f"Fetched and unread: {format_count(plan['lead_entries'])} entries.",
        f"Fetched for it: {fetched}; {format_size(plan['useless_bytes'])} of these were dropped unread.",
    )
