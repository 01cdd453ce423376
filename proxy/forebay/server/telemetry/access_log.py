"""The access log: one line of JSON a request, without secrets.

Lines are gathered and written many at a time, in a thread, so that a request costs no system call. What was gathered is
written when it is ENOUGH, at the latest after INTERVAL seconds, and at the end.

Never sooner: each time costs two changes of threads, and a loop that comes back from waiting for the network has to
wait for the thread that joins them. Lines that are written as soon as the last were, few at a time, cost a busy server
several times what its answers do.

Hits of the fast lane become lines a few dozen at a time: putting one together is faster right after another than among
everything else that a hit does.
"""

import asyncio
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import Final, TypeAlias, get_args

from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.server.telemetry.log_file import PipeLock, write_log_lines

FLUSH_INTERVAL: Final = 0.2
FLUSH_SIZE: Final = 512 << 10
"""Bytes."""
MAX_QUEUED: Final = 8 << 20
"""Gathered beyond this (the reader of our output is stuck): lines are dropped, and counted, rather than kept."""

_FORMAT_BATCH: Final = 32
"""Hits that become lines in one go. It keeps the loop for some 15 us."""

Hit: TypeAlias = tuple[float, str, str, str, float]
"""When it was answered, in seconds since the epoch; its id; the peer; what else is told of it, written out; how many
seconds it took."""

_MS: Final = tuple(f"{micros / 1000:.3f}" for micros in range(1000))
"""Texts of milliseconds, by microseconds: putting a float into digits is the dearest part of a line."""

_QUOTED_STATUS: Final[dict[CacheStatus | None, str]] = {
    None: "null",
    **{status: f'"{status}"' for status in get_args(CacheStatus)},
}


class AccessLog:
    """Writes to a file descriptor. `clock` gives seconds since the epoch."""

    def __init__(self, fd: int, clock: Callable[[], float], pipe_lock: PipeLock | None = None) -> None:
        """`turns`: taken with other processes that write there as well."""
        self._fd = fd
        self._pipe_lock = pipe_lock
        self._clock = clock
        self._hits: list[Hit] = []
        self._lines: list[str] = []
        self._queued_size = 0
        """Characters of the lines."""
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[int] | None = None
        self.dropped = 0

    def __len__(self) -> int:
        """How many lines wait to be written."""
        return len(self._lines) + len(self._hits)

    @property
    def is_writing(self) -> bool:
        """Whether a thread is at it."""
        return self._writing is not None

    def write(self, record: RequestRecord) -> None:
        """Note one request."""
        self._format_hits()
        self._queue([_line(record, self._clock())])

    def write_hit(self, *hit: *Hit) -> None:
        """Note a hit of the fast lane."""
        self._hits.append(hit)
        if len(self._hits) >= _FORMAT_BATCH:
            self._format_hits()
        elif self._timer is None and self._writing is None:
            self._start_timer()

    def _format_hits(self) -> None:
        """Make lines of the hits."""
        if self._hits:
            hits, self._hits = self._hits, []
            self._queue(_lines(hits))

    def _queue(self, lines: Sequence[str]) -> None:
        if self._queued_size > MAX_QUEUED:
            self.dropped += len(lines)
            return
        self._lines += lines
        self._queued_size += sum(map(len, lines)) + len(lines)
        if self._writing is not None:
            return  # what comes after that is seen to when it has ended
        if self._queued_size > FLUSH_SIZE:
            self._start_writing()
        elif self._timer is None:
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(FLUSH_INTERVAL, self._start_writing)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_writing(self) -> None:
        """Have a thread write what was gathered. Nothing is being written."""
        self._stop_timer()
        hits, self._hits = self._hits, []
        lines, self._lines, self._queued_size = self._lines + _lines(hits), [], 0
        self._writing = asyncio.get_running_loop().run_in_executor(
            None, write_log_lines, self._fd, lines, self._pipe_lock
        )
        self._writing.add_done_callback(self._written)

    def _written(self, writing: "asyncio.Future[int]") -> None:
        self._writing = None
        self.dropped += writing.result()
        if self._queued_size > FLUSH_SIZE:
            self._start_writing()
        elif len(self):
            self._start_timer()

    async def flush(self) -> None:
        """Write what was gathered. After it nothing is being written any more, whoever was cancelled meanwhile, and
        nothing is due."""
        while self._writing is not None or len(self):
            if self._writing is None:
                self._start_writing()
            else:
                await asyncio.wait([self._writing])
                # Its callback, which says so, may be called after us.
                await asyncio.sleep(0)
        self._stop_timer()


def _lines(hits: Sequence[Hit]) -> list[str]:
    """Theirs, without their ends."""
    lines, moment, start = list[str](), -1, ""
    for now, request_id, peer, about, seconds in hits:
        millis, micros = int(now * 1000 + 0.5), int(seconds * 1e6 + 0.5)
        if millis != moment:
            moment, start = millis, f'{{"time":{now:.3f},"id":"'
        ms = _MS[micros] if micros < len(_MS) else f"{seconds * 1000:.3f}"
        lines.append(f'{start}{request_id}","peer":"{peer}",{about},"ms":{ms},"first_byte_ms":{ms}}}')
    return lines


def _line(record: RequestRecord, now: float) -> str:
    """The line, without its end. Written out by hand, as this is on the way of every hit: json.dumps takes four times
    as long. What a client chose is quoted by json's own function; the rest can't hold a quote."""
    fields = (
        f'{{"time":{now:.3f},"id":"{record.request_id}","peer":"{record.peer}","principal":{_quoted(record.principal)},'
        f'"method":{_quoted(record.method)},"operation":"{record.operation}","bucket":{_quoted(record.bucket)},'
        f'"key":{_quoted(record.key)},"status":{record.status},'
        f'"cache":{_QUOTED_STATUS[record.cache]},"rule":{_quoted(record.rule)},'
        f'"received":{record.received},"sent":{record.sent},'
        f'"ms":{(record.ended - record.started) * 1000:.3f},"lane":"{record.lane}"'
    )
    if record.first_byte:
        fields += f',"first_byte_ms":{(record.first_byte - record.started) * 1000:.3f}'
    if record.error:
        fields += f',"error":"{record.error}","step":"{record.step}"'
    return fields + (',"aborted":true}' if record.aborted else "}")
