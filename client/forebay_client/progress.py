"""How far a warm-up is, while somebody waits for it: a bar on a terminal, now and then a line anywhere else.

Each `show` is given the job as the server last told it, and the time; nothing here asks or waits.
"""

from contextlib import ExitStack
from types import TracebackType
from typing import Protocol, Self

from forebay_client.admin import Answer
from forebay_client.quantities import counted, duration, number, rate, share, size
from forebay_client.rates import Pace
from forebay_client.surroundings import Screen

LINE_EVERY = 10.0
"""Seconds between two lines in a log."""


class Progress(Protocol):
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, job: Answer, now: float) -> None: ...


class Quiet:
    """Shows nothing: somebody wants JSON."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def show(self, job: Answer, now: float) -> None:
        return None


class Lines(Quiet):
    """A line every ten seconds, for logs."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._pace, self._last = screen, Pace(), float("-inf")

    def show(self, job: Answer, now: float) -> None:
        self._pace.look(now, job)
        if now - self._last >= LINE_EVERY:
            self._last = now
            self._screen.line(", ".join((*standing(job), *outlook(job, self._pace))))
            self._screen.out.flush()


class Bar(Quiet):
    """A bar with its figures under it, redrawn at each look."""

    def __init__(self, screen: Screen) -> None:
        from rich.live import Live  # noqa: PLC0415 - rich costs more than most commands; see surroundings

        self._pace, self._stack = Pace(), ExitStack()
        self._live = Live(console=screen.console(), auto_refresh=False)

    def __enter__(self) -> Self:
        self._stack.enter_context(self._live)
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def show(self, job: Answer, now: float) -> None:
        from rich.progress_bar import ProgressBar  # noqa: PLC0415 - as above
        from rich.table import Table  # noqa: PLC0415 - as above
        from rich.text import Text  # noqa: PLC0415 - as above

        self._pace.look(now, job)
        ratio = ratio_done(job)
        bar = ProgressBar(total=1.0, completed=ratio or 0.0, pulse=ratio is None, width=40, animation_time=now)
        top = Table.grid(padding=(0, 3, 0, 0))
        top.add_row(bar, Text("   ".join(outlook(job, self._pace)), no_wrap=True, overflow="ellipsis"))
        rows = Table.grid()
        rows.add_row(top)
        rows.add_row(Text("   ".join(standing(job)), no_wrap=True, overflow="ellipsis"))
        self._live.update(rows, refresh=True)


def standing(job: Answer) -> tuple[str, ...]:
    """What is done: "12 of 40 objects", "120 MiB of 400 MiB", "2 failed"."""
    done, listed = job["done"] + job["failed"], job["listed"]
    if job["listing_ended"]:
        found = (f"{number(done)} of {counted(listed, 'object')}", _of(job["bytes_done"], job["bytes_listed"]))
    else:
        found = (f"{number(done)} of {number(listed)}+ objects", size(job["bytes_done"]))
    return (*found, f"{number(job['failed'])} failed") if job["failed"] else found


def outlook(job: Answer, pace: Pace) -> tuple[str, ...]:
    """How it goes on: "85 MiB/s", "2 min 10 s left"."""
    if job["state"] != "running":
        return ()
    said: list[str] = []
    if pace.bytes_per_second is not None:
        said.append(rate(pace.bytes_per_second))
    ratio, left = ratio_done(job), pace.seconds_left(job)
    if not job["listing_ended"]:
        said.append("listing")
    elif left is not None:
        said.append(f"{duration(left)} left")
    elif ratio is not None:
        said.append(share(ratio))
    return tuple(said)


def ratio_done(job: Answer) -> float | None:
    """0 to 1, by objects: a failed one is over as well. None while the listing goes on."""
    if not job["listing_ended"]:
        return None
    return float((job["done"] + job["failed"]) / job["listed"]) if job["listed"] else 1.0


def _of(done: int, total: int) -> str:
    # With a list of keys, sizes become known on the way.
    return f"{size(done)} of {size(total)}" if total >= done and total else size(done)
