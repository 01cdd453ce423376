"""Tables of plain text: jobs, cached objects. The column that can be long is the last, so that no width breaks it.

A terminal that is too narrow wraps a long key and nothing else; a pipe gets it whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from forebay_client.cli.admin_client import JsonObject
from forebay_client.cli.command_context import ScreenLine
from forebay_client.cli.human_format import (
    AGE_WIDTH,
    SHARE_WIDTH,
    SIZE_WIDTH,
    escape_unprintable,
    format_age,
    format_duration,
    format_plural,
    format_share,
    format_size,
)
from forebay_client.cli.s3_location import Location

HEADING = "bold"
GAP = "  "


class Column(NamedTuple):
    """A column: its title, its least width, and whether it is aligned to the right."""

    title: str
    width: int = 0
    right: bool = False

    def fit(self, cell: str) -> str:
        """The cell, padded to the column's width."""
        return cell.rjust(self.width) if self.right else cell.ljust(self.width)


def row(columns: Sequence[Column], cells: Iterable[str]) -> str:
    """One row, without trailing blanks: those could wrap unseen."""
    return GAP.join(column.fit(cell) for column, cell in zip(columns, cells, strict=True)).rstrip()


def heading(columns: Sequence[Column]) -> ScreenLine:
    """The line of titles."""
    return ScreenLine(row(columns, (column.title for column in columns)), HEADING)


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> Iterator[ScreenLine]:
    """A whole table, each column as wide as its widest cell."""
    cells = [[column.title for column in columns], *rows]
    fitted = [
        column._replace(width=max(len(line[position]) for line in cells)) for position, column in enumerate(columns)
    ]
    yield heading(fitted)
    for line in rows:
        yield ScreenLine(row(fitted, line))


# A listing may be long, so its widths are fixed and its rows are written as they arrive.
LISTING = (
    Column("SIZE", SIZE_WIDTH, right=True),
    Column("CACHED", SHARE_WIDTH, right=True),
    Column("MEMORY", SIZE_WIDTH, right=True),
    Column("SSD", SIZE_WIDTH, right=True),
    Column("CHECKED", max(AGE_WIDTH, len("CHECKED")), right=True),
    Column("KEY"),
)


def cached_row(cached: JsonObject, now: float) -> str:
    """One object of a listing. CHECKED is the time since the origin last confirmed it."""
    whole = cached["size"]
    return row(
        LISTING,
        (
            format_size(whole),
            format_share(cached["cached"] / whole if whole else 1.0),
            format_size(cached["memory"]),
            format_size(cached["ssd"]),
            format_age(now - cached["validated_at"]),
            escape_unprintable(cached["key"]),
        ),
    )


class ListingTotal:
    """The sums of a listing."""

    def __init__(self) -> None:
        self.objects = self.size = self.cached = self.memory = self.ssd = 0

    def counted(self, objects: Iterable[JsonObject]) -> Iterator[JsonObject]:
        """Yields the objects, and adds each to the sums."""
        for cached in objects:
            self.objects += 1
            self.size += cached["size"]
            self.cached += cached["cached"]
            self.memory += cached["memory"]
            self.ssd += cached["ssd"]
            yield cached

    def row(self, note: str) -> str:
        """The last line of the listing. `note` follows the number of objects."""
        return row(
            LISTING,
            (
                format_size(self.size),
                format_share(self.cached / self.size if self.size else 1.0),
                format_size(self.memory),
                format_size(self.ssd),
                "",
                f"total of {format_plural(self.objects, 'object')}{note}",
            ),
        )


JOBS = (
    Column("JOB"),
    Column("STATE"),
    Column("OBJECTS", right=True),
    Column("FAILED", right=True),
    Column("KEPT", right=True),
    Column("BYTES", right=True),
    Column("LEFT", right=True),
    Column("AGE", right=True),
    Column("WHAT"),
)


def jobs_table(jobs: Sequence[JsonObject], now: float) -> Iterator[ScreenLine]:
    """The table of `forebay jobs`. `now`: seconds since the Unix epoch."""
    return table(JOBS, [_job_row(job, now) for job in jobs])


RECORDINGS = (
    Column("STATE"),
    Column("READS", right=True),
    Column("BYTES", right=True),
    Column("FILE", right=True),
    Column("AGE", right=True),
    Column("USED", right=True),
    Column("KEY"),
    Column("DATA SET"),
    Column("RECORDING"),
)


def recordings_table(recordings: Sequence[JsonObject], now: float) -> Iterator[ScreenLine]:
    """The table of `forebay recordings`. `now`: seconds since the Unix epoch."""
    return table(RECORDINGS, [_recording_row(recording, now) for recording in recordings])


def _recording_row(recording: JsonObject, now: float) -> tuple[str, ...]:
    return (
        recording["state"],
        f"{recording['reads']:,}",
        format_size(recording["size"]),
        format_size(recording["file_size"]),
        format_age(now - recording["began"]),
        "-" if recording["used"] is None else format_age(now - recording["used"]),
        escape_unprintable(recording["principal"]) or "-",
        escape_unprintable(recording["track"]) or "-",
        escape_unprintable(f"s3://{recording['bucket']}/{recording['name']}"),
    )


JOB_VERBS: Final = {
    "warm": "warms",
    "pack": "packs",
    "check": "verifies the pack of",
    "delete": "takes members out of the pack of",
    "unpack": "unpacks",
}
"""The verb for a job, by its action."""


def job_target(job: JsonObject) -> str:
    """The objects of a job: "s3://b/p", "s3://b/p and 2 more", or "40 keys of s3://b"."""
    parts: list[str] = []
    if job["listed_keys"]:
        bucket = f" of {escape_unprintable(str(Location(job['bucket'], '')))}" if job["bucket"] else ""
        parts.append(f"{format_plural(job['listed_keys'], 'key')}{bucket}")
    if job["sources"]:
        more = job["listed_sources"] - 1
        parts.append(escape_unprintable(job["sources"][0]) + (f" and {more:,} more" if more else ""))
    return " and ".join(parts) or escape_unprintable(str(Location(job["bucket"], job["prefix"] or "")))


def _job_action(job: JsonObject) -> str:
    """The verb for a job that does not warm, else nothing."""
    if job["action"] == "warm":
        return "check of " if job["check"] else ""
    return f"{JOB_VERBS[job['action']]} "


def _job_row(job: JsonObject, now: float) -> tuple[str, ...]:
    # A plus sign: the listing goes on, and there may be more.
    listed = f"{job['listed']:,}" + ("" if job["listing_ended"] else "+")
    return (
        escape_unprintable(job["id"]),
        job["state"],
        f"{job['done']:,}/{listed}",
        f"{job['failed']:,}",
        "-" if job["kept"] is None or job["action"] != "warm" else f"{job['kept']:,}",
        format_size(job["bytes_done"]),
        "-" if job["seconds_left"] is None else format_duration(job["seconds_left"]),
        format_age(now - job["started_at"]),
        f"{_job_action(job)}{job_target(job)}",
    )
