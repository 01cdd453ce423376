"""`forebay datasets`: the data sets of a running Forebay, one a row."""

import argparse
from collections.abc import Iterator, Sequence

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, ScreenLine
from forebay_client.cli.human_format import (
    escape_unprintable,
    format_count,
    format_share,
    format_size,
)
from forebay_client.cli.text_tables import Column, table

DATA_SETS = (
    Column("OBJECTS", right=True),
    Column("SIZE", right=True),
    Column("MEMORY", right=True),
    Column("SSD", right=True),
    Column("PINNED", right=True),
    Column("QUOTA", right=True),
    Column("KEEP"),
    Column("READS/S", right=True),
    Column("AHEAD", right=True),
    Column("EPOCH", right=True),
    Column("HITS", right=True),
    Column("BEFORE", right=True),
    Column("DATA SET"),
)


def datasets(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay datasets`."""
    rows: list[JsonObject] = admin.get(api_path("datasets"))["data_sets"]
    none = "No object was read under a rule with a name, eviction or quota since Forebay started or loaded it."
    context.screen.write_rows(rows, lambda: data_sets_table(rows), none, as_json=args.json)
    return 0


def data_sets_table(rows: Sequence[JsonObject]) -> Iterator[ScreenLine]:
    """The table. HITS: the share of the current epoch's bytes that was in a tier; BEFORE: that of the epoch before."""
    return table(DATA_SETS, [_cells(row) for row in rows])


def _cells(row: JsonObject) -> tuple[str, ...]:
    last = row["last_epoch"]
    return (
        format_count(row["objects"]),
        format_size(row["size"]),
        _size(row["memory"]),
        _size(row["ssd"]),
        format_size(row["pinned"]) if row["pinned"] else "-",
        _size(row["quota"]),
        row["eviction"],
        format_count(row["reads_per_second"]),
        format_size(row["plan_lead"]),
        format_count(row["epoch"]["number"]),
        format_share(row["epoch"]["hit_share"]),
        "-" if last is None else format_share(last["hit_share"]),
        escape_unprintable(row["name"]),
    )


def _size(size: int | None) -> str:
    return "-" if size is None else format_size(size)
