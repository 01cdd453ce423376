"""A command line run in the test's own process: streams that remember, and time that goes by only in pauses."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from forebay_client.cli.command_context import CommandContext, Screen
from forebay_client.cli.command_line import run_command_line


class _Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@dataclass
class Typed:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


@dataclass
class Typist:
    """Types commands at one admin port."""

    address: str
    environ: Mapping[str, str] = field(default_factory=dict)
    terminal: bool = False
    stdin: str = ""
    at_pause: Callable[[int], None] = lambda _count: None
    """Called with the number of each pause, from 1 on; raises KeyboardInterrupt to press Ctrl-C."""
    wall: float = 1_750_000_300.0
    """Five minutes after everything in harness.admin_control."""
    _pauses: int = 0
    _now: float = 0.0

    def type(self, *arguments: str) -> Typed:
        out, err = _Stream(self.terminal), _Stream(self.terminal)
        context = CommandContext(
            screen=Screen(out, err, self.terminal),
            stdin=io.StringIO(self.stdin),
            environ={"FOREBAY_ADMIN": self.address, **self.environ},
            wall_clock=lambda: self.wall,
            monotonic=lambda: self._now,
            sleep=self._pause,
        )
        code = run_command_line(arguments, context)
        return Typed(code, out.getvalue(), err.getvalue())

    def _pause(self, seconds: float) -> None:
        self._pauses += 1
        self._now += seconds
        self.at_pause(self._pauses)
