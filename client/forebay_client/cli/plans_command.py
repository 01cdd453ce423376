"""`forebay plans`: lists the plans that clients have sent, shows one, or cancels one."""

from collections.abc import Sequence
from typing import Final

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.human_format import escape_unprintable, format_age, format_count, format_size
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
_LIVE: Final = ("queued", "running", "idle")


def run_plans(admin: AdminClient, context: CommandContext, action: str, plan_id: str | None, *, as_json: bool) -> int:
    """Carry out "ls", or "show" or "cancel" of a plan. The exit code: 1 if a plan to cancel had ended before."""
    if plan_id is None:
        plans: list[JsonObject] = admin.get(api_path("plans"))["plans"]
    else:
        path = api_path("plans", plan_id)
        before = admin.get(path)
        plans = [admin.delete(path) if action == "cancel" else before]
        if action == "cancel" and before["state"] not in _LIVE:
            context.screen.write_error(f"Plan {escape_unprintable(plan_id)} had ended before: {before['state']}.")
            return 1
    if as_json:
        for plan in plans:
            context.screen.write_json(plan)
    elif action == "cancel" and plan_id is not None:
        context.screen.write_line(f"Cancelled plan {escape_unprintable(plan_id)}.")
    elif plans:
        context.screen.write_lines(table(PLANS, [_row(plan) for plan in plans]))
    else:
        context.screen.write_error("There are no plans.")
    if action == "show" and not as_json:
        for plan in plans:
            for line in _details(context, plan):
                context.screen.write_line(line)
    return 0


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
    )
