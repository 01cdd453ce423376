"""`forebay explain`: the rules and grants that apply to an object, what is cached of it, and what a read would do."""

import argparse
from collections.abc import Iterator

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, UsageError
from forebay_client.cli.human_format import escape_unprintable, format_size


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


def explanation_lines(explanation: JsonObject) -> Iterator[str]:
    """The decided fields with their rules, the access of keys, what is cached, and what a read would do."""
    yield f"{'origin':14} {escape_unprintable(explanation['origin'] or 'none has this bucket')}"
    for field in explanation["decided"]:
        source = (
            "by default" if field["rule"] is None else f"rules[{field['rule']}] ({escape_unprintable(field['path'])})"
        )
        yield f"{field['name']:14} {field['value']:12} {source}"
    for access in explanation["access"]:
        allow = ", ".join(access["allow"]) or "nothing"
        grants = ", ".join(f"grants[{number}]" for number in access["grants"]) or "no grant matches"
        yield f"{'access':14} {escape_unprintable(access['key'])}: {allow} ({grants})"
    cached = explanation["cached"]
    if cached is None:
        yield f"{'cached':14} nothing"
    else:
        yield (
            f"{'cached':14} {format_size(cached['cached'])} of {format_size(cached['size'])} "
            f"({format_size(cached['memory'])} in memory, {format_size(cached['ssd'])} on SSD), "
            f"ETag {escape_unprintable(cached['etag'])}"
        )
        stale = f"stale: {explanation['stale_because']}"
        yield f"{'freshness':14} {'fresh' if explanation['fresh'] else stale}"
    if (member := explanation.get("member")) is not None:
        shard = explanation.get("shard")
        held = f"{format_size(shard['cached'])} of {format_size(shard['size'])}" if shard is not None else "nothing"
        path = escape_unprintable(f"s3://{explanation['bucket']}/{member['shard']}")
        yield f"{'member':14} {member['size']} bytes at {member['offset']} of {path}, {held} of which is cached"
    yield f"{'a read now':14} {explanation['read']}"
