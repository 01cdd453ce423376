"""`forebay ls`: lists cached objects, in the order of their keys or the largest first, and their sums.

In the order of keys a row is written as it arrives, and with `--limit` no page is read that isn't shown. Another order
needs all pages; then no more rows are kept than are shown.
"""

import argparse
import heapq
from collections.abc import Iterable, Iterator
from itertools import islice

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext
from forebay_client.cli.human_format import escape_unprintable
from forebay_client.cli.s3_location import Location
from forebay_client.cli.text_tables import LISTING, ListingTotal, cached_row, heading


def ls(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay ls`."""
    where, order, limit = args.location, args.sort, args.limit
    screen, total, shown = context.screen, ListingTotal(), 0
    objects = _cached_objects(admin, where)
    counted = total.counted(objects)
    for cached in islice(counted, limit) if order == "key" else _largest(counted, order, limit):
        if args.json:
            screen.write_json(cached)
        else:
            if not shown:
                screen.write_lines([heading(LISTING)])
            screen.write_line(cached_row(cached, context.wall_clock()))
        shown += 1
    if args.json:
        return 0
    if not shown:
        screen.write_error(f"Nothing of {escape_unprintable(str(where))} is cached.")
    elif next(objects, None) is not None:
        screen.write_line(total.row("; there are more"), "bold")
    else:
        screen.write_line(total.row(f", {shown:,} shown" if shown < total.objects else ""), "bold")
    return 0


def _cached_objects(admin: AdminClient, where: Location) -> Iterator[JsonObject]:
    """The cached objects in the order of their keys; a page is asked for when its first object is."""
    query = {"bucket": where.bucket, "prefix": where.prefix}
    after: str | None = ""
    while after is not None:
        page = admin.get(api_path("cache"), {**query, "after": after} if after else query)
        yield from page["objects"]
        after = page["next"]


def _largest(objects: Iterable[JsonObject], field: str, limit: int | None) -> list[JsonObject]:
    """The objects, the largest first; of equals in the order of their keys."""
    if limit is not None:
        return heapq.nlargest(limit, objects, key=lambda each: each[field])
    return sorted(objects, key=lambda each: -each[field])
