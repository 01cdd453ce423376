"""The progress of a warm-up job: a bar on a terminal, a line every ten seconds anywhere else.

`show` receives the job as the server last reported it, and the time; nothing here polls or waits.
"""

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from forebay_client.cli.admin_client import JsonObject
from forebay_client.cli.command_context import Screen
from forebay_client.cli.human_format import (
    escape_unprintable,
    format_count,
    format_duration,
    format_plural,
    format_rate,
    format_share,
    format_size,
)

LINE_INTERVAL = 10.0
"""Seconds between two lines in a log."""


class ProgressDisplay(Protocol):
    """A display of one job, entered before the first `show`."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, job: JsonObject, now: float) -> None:
        """Shows the job. `now`: seconds of any clock."""
        ...

    def warn(self, sentence: str) -> None:
        """Shows a warning beside the progress."""
        ...


class NoDisplay:
    """Shows nothing, for `--json`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def show(self, job: JsonObject, now: float) -> None:
        """Shows nothing."""

    def warn(self, sentence: str) -> None:
        """Shows nothing: the JSON of the job has it."""


class LineDisplay(NoDisplay):
    """A line every ten seconds, for logs."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._last = screen, float("-inf")

    def show(self, job: JsonObject, now: float) -> None:
        """Writes a line if the last one was ten seconds ago, and none for an ended job, which is reported."""
        if job["state"] not in {"queued", "running"}:
            return
        if now - self._last >= LINE_INTERVAL:
            self._last = now
            self._screen.write_line(", ".join((*amounts(job), *forecast(job))))
            self._screen.out.flush()

    def warn(self, sentence: str) -> None:
        """Writes the warning."""
        self._screen.write_error(sentence)


class BarDisplay(NoDisplay):
    """A bar with its numbers under it, redrawn at each `show`."""

    def __init__(self, screen: Screen) -> None:
        from rich.live import Live  # noqa: PLC0415 - rich costs more than most commands; see command_context

        self._stack = ExitStack()
        self._live = Live(console=screen.rich_console(), auto_refresh=False)

    def __enter__(self) -> Self:
        self._stack.enter_context(self._live)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def show(self, job: JsonObject, now: float) -> None:
        """Redraws the bar."""
        from rich.progress_bar import ProgressBar  # noqa: PLC0415 - as above
        from rich.table import Table  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - as above

        ratio = ratio_done(job)
        bar = ProgressBar(total=1.0, completed=ratio or 0.0, pulse=ratio is None, width=40, animation_time=now)
        top = Table.grid(padding=(0, 3, 0, 0))
        top.add_row(bar, Text("   ".join(forecast(job)), no_wrap=True, overflow="ellipsis"))
        rows = Table.grid()
        rows.add_row(top)
        rows.add_row(Text("   ".join(amounts(job)), no_wrap=True, overflow="ellipsis"))
        self._live.update(rows, refresh=True)

    def warn(self, sentence: str) -> None:
        """Writes the warning above the bar."""
        self._live.console.print(sentence, style="yellow", markup=False, highlight=False, soft_wrap=True)


def amounts(job: JsonObject) -> tuple[str, ...]:
    """The amount that is done, e.g. "12 of 40 objects", "120 MiB of 400 MiB", "2 failed"."""
    done, listed = job["done"] + job["failed"], job["listed"]
    if job["listing_ended"]:
        found = (
            f"{format_count(done)} of {format_plural(listed, 'object')}",
            _of(job["bytes_done"], job["bytes_listed"]),
        )
    else:
        found = (f"{format_count(done)} of {format_count(listed)}+ objects", format_size(job["bytes_done"]))
    return (*found, f"{format_count(job['failed'])} failed") if job["failed"] else found


def forecast(job: JsonObject) -> tuple[str, ...]:
    """Speed and time left, e.g. "85 MiB/s", "2 min 10 s left"."""
    if job["state"] == "queued":
        return ("waits for other jobs",) if job["waiting_for"] is None else (escape_unprintable(job["waiting_for"]),)
    if job["state"] != "running":
        return ()
    parts: list[str] = []
    if job["bytes_per_second"] is not None:
        parts.append(format_rate(job["bytes_per_second"]))
    ratio, left = ratio_done(job), job["seconds_left"]
    if job["waiting_for"] is not None:
        parts.append(f"waits: {escape_unprintable(job['waiting_for'])}")
    elif not job["listing_ended"]:
        parts.append("listing")
    elif left is not None:
        parts.append(f"{format_duration(left)} left")
    elif ratio is not None:
        parts.append(format_share(ratio))
    return tuple(parts)


def ratio_done(job: JsonObject) -> float | None:
    """The share of objects that have ended, 0 to 1, failed ones included. None while the listing goes on."""
    if not job["listing_ended"]:
        return None
    return float((job["done"] + job["failed"]) / job["listed"]) if job["listed"] else 1.0


def _of(done: int, total: int) -> str:
    # With a list of keys, an object's size is known only once it was resolved.
    return f"{format_size(done)} of {format_size(total)}" if total >= done and total else format_size(done)
