"""`forebay advise`: the estimated hits of each data set with other tiers and evictions, and the settings to choose."""

import argparse
from collections.abc import Iterator

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, ScreenLine
from forebay_client.cli.human_format import escape_unprintable, format_share, format_size
from forebay_client.cli.text_tables import HEADING, Column, table

OUTLOOKS = (
    Column("TIERS", right=True),
    Column("LRU KEEPS", right=True),
    Column("HITS", right=True),
    Column("EPOCH KEEPS", right=True),
    Column("HITS", right=True),
)


def advise(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay advise`. Returns the exit code: 1 if there is no such data set."""
    data_set, by_recordings = args.data_set, args.recordings
    query = {"source": "recordings"} if by_recordings else None
    rows: list[JsonObject] = admin.get(api_path("advice"), query)["data_sets"]
    if data_set is not None:
        rows = [row for row in rows if row["name"] == data_set]
    if args.json:
        for row in rows:
            context.screen.write_json(row)
    elif rows:
        context.screen.write_lines(line for row in rows for line in _lines(row))
    if not rows:
        unknown = "No object was read under a rule with a name, eviction or quota since Forebay started or loaded it."
        if by_recordings:
            unknown = "No epoch was recorded to its end."
        missing = "recorded to its end" if by_recordings else "read since Forebay was started or its rule was loaded"
        named = f"There is no data set {data_set!r}, or nothing of it was {missing}."
        context.screen.write_error(unknown if data_set is None else named)
    return 1 if not rows and data_set is not None else 0


def _lines(row: JsonObject) -> Iterator[ScreenLine]:
    yield ScreenLine(escape_unprintable(row["name"]), HEADING)
    if row["outlooks"]:
        yield from table(OUTLOOKS, [_cells(outlook) for outlook in row["outlooks"]])
    for reason in row["reasons"]:
        yield ScreenLine(reason)


def _cells(outlook: JsonObject) -> tuple[str, ...]:
    return (
        f"{outlook['factor']:g}x",
        format_size(outlook["lru_size"]),
        format_share(outlook["lru"]),
        format_size(outlook["epoch_size"]),
        format_share(outlook["epoch"]),
    )
