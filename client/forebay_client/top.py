"""`forebay top`: the figures of `forebay stats` and what happens right now, again and again until Ctrl-C.

On a terminal it has the screen to itself; anywhere else it is a line each time.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from forebay_client.admin import Admin, Answer, path
from forebay_client.rates import Rates, rates_between
from forebay_client.stats import rates_line, stats_lines
from forebay_client.surroundings import Screen, Surroundings


class Show(Protocol):
    def __call__(self, stats: Answer, rates: Rates | None) -> None: ...


def top(admin: Admin, around: Surroundings, interval: float, *, as_json: bool) -> int:
    """Looks every `interval` seconds. Ends by Ctrl-C, which is how it is meant to end: 0."""
    show: Show
    with suppress(KeyboardInterrupt):
        if around.screen.is_terminal and not as_json:
            with _whole_screen(around.screen, str(admin.address)) as show:
                _look(admin, around, interval, show)
        else:
            _look(admin, around, interval, _json(around.screen) if as_json else _lines(around.screen))
    return 0


def _look(admin: Admin, around: Surroundings, interval: float, show: Show) -> None:
    before, then = admin.get(path("stats")), around.monotonic()
    show(before, None)
    while True:
        around.pause(interval)
        after, now = admin.get(path("stats")), around.monotonic()
        show(after, rates_between(before, after, now - then))
        before, then = after, now


def _json(screen: Screen) -> Show:
    def show(stats: Answer, rates: Rates | None) -> None:
        if rates is not None:
            screen.document({"uptime": stats["uptime"], **rates._asdict()})

    return show


def _lines(screen: Screen) -> Show:
    def show(stats: Answer, rates: Rates | None) -> None:
        if rates is not None:
            screen.line(rates_line(rates))
            screen.out.flush()

    return show


@contextmanager
def _whole_screen(screen: Screen, address: str) -> Iterator[Show]:
    from rich.live import Live  # noqa: PLC0415 - rich costs more than most commands; see surroundings
    from rich.text import Text  # noqa: PLC0415 - as above

    with Live(console=screen.console(), screen=True, auto_refresh=False) as live:

        def show(stats: Answer, rates: Rates | None) -> None:
            current = "(measuring)" if rates is None else rates_line(rates)
            text = Text(no_wrap=True, overflow="ellipsis")
            for line in stats_lines(stats, address, current):
                text.append(f"{line.text}\n", line.style)
            live.update(text, refresh=True)

        yield show
