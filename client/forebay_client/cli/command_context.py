"""The context of a command: its streams, its environment, its clocks. Made once, in `main`; tests make others.

All output goes through `Screen`. On a terminal it may be coloured by rich, which is imported with the first colour
because that costs more than most commands; anywhere else it is plain lines, whole and never wrapped.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TextIO

if TYPE_CHECKING:
    from rich.console import Console


class ScreenLine(NamedTuple):
    """One line for a person. `style` is rich's, and shows on a terminal only."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Screen:
    """The two output streams of a command."""

    out: TextIO
    err: TextIO
    is_terminal: bool
    """Whether `out` is a terminal."""

    def write_line(self, text: str, style: str = "") -> None:
        """Writes a line to `out`. `style` is rich's, and shows on a terminal only."""
        if style and self.is_terminal:
            # soft_wrap: the terminal breaks long lines, so that a key that is copied is still one word.
            self.rich_console().print(text, style=style, markup=False, highlight=False, soft_wrap=True)
        else:
            self.out.write(f"{text}\n")

    def write_lines(self, lines: Iterable[ScreenLine]) -> None:
        """Writes lines to `out`."""
        for text, style in lines:
            self.write_line(text, style)

    def write_json(self, document: object) -> None:
        """Writes a JSON document on a line of its own, and flushes: the reader of a pipe sees it at once."""
        self.out.write(json.dumps(document) + "\n")
        self.out.flush()

    def write_rows(
        self, rows: Sequence[object], lines: Callable[[], Iterable[ScreenLine]], nothing: str, *, as_json: bool
    ) -> None:
        """Writes a listing: a JSON document for each row, or the `lines` of its table. If there is no row, the sentence
        `nothing` goes to `err`, except for JSON."""
        if as_json:
            for row in rows:
                self.write_json(row)
        elif rows:
            self.write_lines(lines())
        else:
            self.write_error(nothing)

    def write_error(self, sentence: str) -> None:
        """Writes a sentence to `err`."""
        self.out.flush()  # in order, where both streams are one file
        self.err.write(f"{sentence}\n")
        self.err.flush()

    def rich_console(self) -> "Console":
        """A rich console on `out`."""
        from rich.console import Console  # noqa: PLC0415 - lazily: see the module

        return Console(file=self.out, force_terminal=self.is_terminal, highlight=False)


class UsageError(Exception):
    """The command line is contradictory, or names a file that can't be used. The message is a sentence. Exit code 2."""


@dataclass(frozen=True, slots=True)
class CommandContext:
    """The streams, environment and clocks of a command."""

    screen: Screen
    stdin: TextIO
    environ: Mapping[str, str]
    wall_clock: Callable[[], float]
    """Seconds since the Unix epoch, for ages."""
    monotonic: Callable[[], float]
    """Seconds, for rates."""
    sleep: Callable[[float], None]
    """Waits so many seconds, or raises KeyboardInterrupt."""


def process_context() -> CommandContext:
    """The context of this process."""
    # Python has no stream where the descriptor is closed (`forebay ls ... >&-`).
    out, err = (stream or open(os.devnull, "w", encoding="utf-8") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115, PTH123 # for as long as the process runs
    for stream in (out, err):
        # A key that the terminal's encoding can't show is no reason to stop half-way through a listing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    return CommandContext(
        screen=Screen(out, err, out.isatty()),
        stdin=sys.stdin,
        environ=os.environ,
        wall_clock=time.time,
        monotonic=time.monotonic,
        sleep=_pause,
    )


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
