"""The access log: one line of JSON a request, without secrets.

Lines are gathered and written many at a time, in a thread, so that a request costs the formatting and no system call.
What was gathered is written when it is ENOUGH, at the latest after INTERVAL seconds, and at the end.

Never sooner: each time costs two changes of threads, and a loop that comes back from waiting for the network has to
wait for the thread that formats. Lines that are written as soon as the last were, few at a time, cost a busy server
several times what its answers do.
"""

import asyncio
from collections.abc import Callable
from json.encoder import encode_basestring_ascii as _quoted
from typing import Final, get_args

from forebay.shell.telemetry.logfile import Turns, write_lines
from forebay.story.account import Account, CacheStatus

INTERVAL: Final = 0.2
ENOUGH: Final = 512 << 10
"""Bytes."""
MOST_BYTES: Final = 8 << 20
"""Gathered beyond this (the reader of our output is stuck): lines are dropped, and counted, rather than kept."""

_MS: Final = tuple(f"{micros / 1000:.3f}" for micros in range(1000))
"""Texts of milliseconds, by microseconds: putting a float into digits is the dearest part of a line."""

_QUOTED_STATUS: Final[dict[CacheStatus | None, str]] = {
    None: "null",
    **{status: f'"{status}"' for status in get_args(CacheStatus)},
}


class AccessLog:
    """Writes to a file descriptor. `clock` gives seconds since the epoch."""

    def __init__(self, fd: int, clock: Callable[[], float], turns: Turns | None = None) -> None:
        """`turns`: taken with other processes that write there as well."""
        self._fd = fd
        self._turns = turns
        self._clock = clock
        self._lines: list[str] = []
        self._gathered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[int] | None = None
        self._moment, self._time = 0, ""
        self.dropped = 0

    def __len__(self) -> int:
        """How many lines wait to be written."""
        return len(self._lines)

    @property
    def writing(self) -> bool:
        """Whether a thread is at it."""
        return self._writing is not None

    def write(self, account: Account) -> None:
        """Note one request."""
        self._gather(_line(account, self._clock()))

    def hit(
        self,
        now: float,
        request_id: str,
        peer: str,
        told: str,
        status: int,
        cache: CacheStatus,
        sent: int,
        seconds: float,
    ) -> None:
        """Note a hit of the fast lane: what is `told` of it is the same each time, and was written out beforehand."""
        moment, micros = int(now * 1000), int(seconds * 1e6 + 0.5)
        if moment != self._moment:
            self._moment, self._time = moment, f"{now:.3f}"
        ms = _MS[micros] if micros < len(_MS) else f"{seconds * 1000:.3f}"
        self._gather(
            f'{{"time":{self._time},"id":"{request_id}","peer":"{peer}",{told},"status":{status},"cache":"{cache}",'
            f'"received":0,"sent":{sent},"ms":{ms},"first_byte_ms":{ms}}}'
        )

    def _gather(self, line: str) -> None:
        if self._gathered > MOST_BYTES:
            self.dropped += 1
            return
        self._lines.append(line)
        self._gathered += len(line) + 1
        if self._writing is not None:
            return  # what comes after that is seen to when it has ended
        if self._gathered > ENOUGH:
            self._begin()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._begin)

    def _begin(self) -> None:
        """Have a thread write what was gathered. Nothing is being written."""
        self._disarm()
        lines, self._lines, self._gathered = self._lines, [], 0
        self._writing = asyncio.get_running_loop().run_in_executor(None, write_lines, self._fd, lines, self._turns)
        self._writing.add_done_callback(self._written)

    def _written(self, writing: "asyncio.Future[int]") -> None:
        self._writing = None
        self.dropped += writing.result()
        if self._gathered > ENOUGH:
            self._begin()
        elif self._lines:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._begin)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def flush(self) -> None:
        """Write what was gathered. After it nothing is being written any more, whoever was cancelled meanwhile, and
        nothing is due."""
        while self._writing is not None or self._lines:
            if self._writing is None:
                self._begin()
            else:
                await asyncio.wait([self._writing])
                # Its callback, which says so, may be called after us.
                await asyncio.sleep(0)
        self._disarm()


def _line(account: Account, now: float) -> str:
    """The line, without its end. Written out by hand, as this is on the way of every hit: json.dumps takes four times
    as long. What a client chose is quoted by json's own function; the rest can't hold a quote."""
    fields = (
        f'{{"time":{now:.3f},"id":"{account.request_id}","peer":"{account.peer}","principal":{_quoted(account.principal)},'
        f'"method":{_quoted(account.method)},"operation":"{account.operation}","bucket":{_quoted(account.bucket)},'
        f'"key":{_quoted(account.key)},"status":{account.status},'
        f'"cache":{_QUOTED_STATUS[account.cache]},"rule":{_quoted(account.rule)},'
        f'"received":{account.received},"sent":{account.sent},'
        f'"ms":{(account.ended - account.started) * 1000:.3f},"lane":"{account.lane}"'
    )
    if account.first_byte:
        fields += f',"first_byte_ms":{(account.first_byte - account.started) * 1000:.3f}'
    if account.error:
        fields += f',"error":"{account.error}","step":"{account.step}"'
    return fields + (',"aborted":true}' if account.aborted else "}")
