"""`forebay top`: the screen of `forebay stats` with current rates, refreshed until Ctrl-C.

On a terminal it takes the whole screen; anywhere else it prints a line each time.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from forebay_client.cli.admin_client import AdminClient, JsonObject, api_path
from forebay_client.cli.command_context import CommandContext, Screen
from forebay_client.cli.stats_screen import rates_line, stats_lines
from forebay_client.cli.throughput import Rates, rates_between


class StatsDisplay(Protocol):
    """Shows a response of /v1/stats, and the rates since the one before."""

    def __call__(self, stats: JsonObject, rates: Rates | None) -> None:
        """`rates`: None with the first response."""
        ...


def top(admin: AdminClient, context: CommandContext, args: argparse.Namespace) -> int:
    """`forebay top`: polls every `--interval` seconds until Ctrl-C."""
    interval, as_json = args.interval, args.json
    show: StatsDisplay
    with suppress(KeyboardInterrupt):
        if context.screen.is_terminal and not as_json:
            with _whole_screen(context.screen, str(admin.address)) as show:
                _poll(admin, context, interval, show)
        else:
            _poll(admin, context, interval, _json(context.screen) if as_json else _lines(context.screen))
    return 0


def _poll(admin: AdminClient, context: CommandContext, interval: float, show: StatsDisplay) -> None:
    before, then = admin.get(api_path("stats")), context.monotonic()
    show(before, None)
    while True:
        context.sleep(interval)
        after, now = admin.get(api_path("stats")), context.monotonic()
        show(after, rates_between(before, after, now - then))
        before, then = after, now


def _json(screen: Screen) -> StatsDisplay:
    def show(stats: JsonObject, rates: Rates | None) -> None:
        if rates is not None:
            screen.write_json({"uptime": stats["uptime"], **rates._asdict()})

    return show


def _lines(screen: Screen) -> StatsDisplay:
    def show(stats: JsonObject, rates: Rates | None) -> None:
        if rates is not None:
            screen.write_line(rates_line(rates))
            screen.out.flush()

    return show


@contextmanager
def _whole_screen(screen: Screen, address: str) -> Iterator[StatsDisplay]:
    from rich.live import Live  # noqa: PLC0415 - rich costs more than most commands; see command_context
    from rich.text import Text  # noqa: PLC0415 - as above

    with Live(console=screen.rich_console(), screen=True, auto_refresh=False) as live:

        def show(stats: JsonObject, rates: Rates | None) -> None:
            current = "(measuring)" if rates is None else rates_line(rates)
            text = Text(no_wrap=True, overflow="ellipsis")
            for line in stats_lines(stats, address, current):
                text.append(f"{line.text}\n", line.style)
            live.update(text, refresh=True)

        yield show
