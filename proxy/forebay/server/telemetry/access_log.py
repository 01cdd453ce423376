"""The access log: one line of JSON a request, without secrets.

    write ──────> records ──┬──> lines ──FLUSH_SIZE, FLUSH_INTERVAL or flush──> one thread at a time: write_log_lines
    write_hit ──> hits ─────┘ formatted in batches

- Lines are queued and written many at a time, in a thread, so that a request costs no system call. They are written
  when there are FLUSH_SIZE bytes of them, at the latest after FLUSH_INTERVAL seconds, and at the end.
- Never sooner: each write costs two changes of threads, and a loop that returns from waiting for the network has to
  wait for the thread that joins the lines. Lines written as soon as the last ones were, few at a time, cost a busy
  server several times what its responses do.
- Lines are formatted a few dozen at a time: one is faster to make right after another than among everything else that a
  request does.
"""

import asyncio
from collections.abc import Callable, Sequence
from json.encoder import encode_basestring_ascii as _quoted
from typing import Final, TypeAlias, get_args

from forebay.core.request_record import CacheStatus, RequestRecord
from forebay.server.telemetry.log_file import PipeLock, write_log_lines

FLUSH_INTERVAL: Final = 0.2
"""Seconds."""
FLUSH_SIZE: Final = 512 << 10
"""Bytes."""
MAX_QUEUED: Final = 8 << 20
"""Bytes beyond which lines are dropped, and counted: the reader of our output is stuck."""

FORMAT_BATCH: Final = 32
"""Lines that are formatted at once. It takes the loop some 15 us."""

Hit: TypeAlias = tuple[float, str, str, str, float]
"""The time of the response, in seconds since the epoch; the request id; the peer; the other fields, as JSON text; the
seconds that it took."""

_MS: Final = tuple(f"{micros / 1000:.3f}" for micros in range(1000))
"""Milliseconds as text, by microseconds: formatting a float is the most expensive part of a line."""

_QUOTED_STATUS: Final[dict[CacheStatus | None, str]] = {
    None: "null",
    **{status: f'"{status}"' for status in get_args(CacheStatus)},
}


class AccessLog:
    """Writes to a file descriptor. `clock`: seconds since the epoch."""

    def __init__(self, fd: int, clock: Callable[[], float], pipe_lock: PipeLock | None = None) -> None:
        """`pipe_lock`: shared with the other processes that write to the descriptor, None if there are none."""
        self._fd = fd
        self._pipe_lock = pipe_lock
        self._clock = clock
        self._hits: list[Hit] = []
        self._records: list[tuple[RequestRecord, float]] = []
        """Requests that have ended, and when; either these or hits wait to be formatted."""
        self._lines: list[str] = []
        self._queued_size = 0
        """Characters of the queued lines."""
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[int] | None = None
        self.dropped = 0
        """Lines that were not written."""

    def __len__(self) -> int:
        """The number of lines that wait to be written."""
        return len(self._lines) + len(self._hits) + len(self._records)

    @property
    def is_writing(self) -> bool:
        """Whether a thread is writing."""
        return self._writing is not None

    def write(self, record: RequestRecord) -> None:
        """Adds a request."""
        self._format_hits()
        self._records.append((record, self._clock()))
        if len(self._records) >= FORMAT_BATCH:
            self._format_records()
        elif self._timer is None and self._writing is None:
            self._start_timer()

    def write_hit(self, *hit: *Hit) -> None:
        """Adds a hit of the fast lane."""
        if self._records:
            self._format_records()
        self._hits.append(hit)
        if len(self._hits) >= FORMAT_BATCH:
            self._format_hits()
        elif self._timer is None and self._writing is None:
            self._start_timer()

    def _format_hits(self) -> None:
        if self._hits:
            hits, self._hits = self._hits, []
            self._queue(_lines(hits))

    def _format_records(self) -> None:
        if self._records:
            records, self._records = self._records, []
            self._queue([_line(record, now) for record, now in records])

    def _queue(self, lines: Sequence[str]) -> None:
        if self._queued_size > MAX_QUEUED:
            self.dropped += len(lines)
            return
        self._lines += lines
        self._queued_size += sum(map(len, lines)) + len(lines)
        if self._writing is not None:
            return  # _written starts the next write
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
        """Has a thread write the queued lines. Only while no thread is writing."""
        self._stop_timer()
        hits, self._hits, records, self._records = self._hits, [], self._records, []
        last = [*_lines(hits), *(_line(record, now) for record, now in records)]
        lines, self._lines, self._queued_size = self._lines + last, [], 0
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
        """Writes the queued lines. Afterwards no thread is writing and no timer is due, even if others were
        cancelled."""
        while self._writing is not None or len(self):
            if self._writing is None:
                self._start_writing()
            else:
                await asyncio.wait([self._writing])
                # _written may run after this task.
                await asyncio.sleep(0)
        self._stop_timer()


def _lines(hits: Sequence[Hit]) -> list[str]:
    """The lines of these hits, without line ends."""
    lines, moment, start = list[str](), -1, ""
    for now, request_id, peer, fields, seconds in hits:
        millis, micros = int(now * 1000 + 0.5), int(seconds * 1e6 + 0.5)
        if millis != moment:
            moment, start = millis, f'{{"time":{now:.3f},"id":"'
        ms = _MS[micros] if micros < len(_MS) else f"{seconds * 1000:.3f}"
        lines.append(f'{start}{request_id}","peer":"{peer}",{fields},"ms":{ms},"first_byte_ms":{ms}}}')
    return lines


def _line(record: RequestRecord, now: float) -> str:
    """The line of a request, without its end. Formatted by hand: json.dumps takes four times as long. Values that a
    client chose are quoted by json's own function; the others can't contain a quote."""
    fields = (
        f'{{"time":{now:.3f},"id":"{record.request_id}","peer":"{record.peer}","principal":{_quoted(record.principal)},'
        f'"method":{_quoted(record.method)},"operation":"{record.operation}","bucket":{_quoted(record.bucket)},'
        f'"key":{_quoted(record.key)},"status":{record.status},'
        f'"cache":{_QUOTED_STATUS[record.cache]},"rule":{_quoted(record.rule)},'
        f'"received":{record.received},"sent":{record.sent},'
        f'"ms":{(record.ended - record.started) * 1000:.3f},"lane":"full"'
    )
    if record.first_byte:
        fields += f',"first_byte_ms":{(record.first_byte - record.started) * 1000:.3f}'
    if record.error:
        fields += f',"error":"{record.error}","step":"{record.step}"'
    return fields + (',"aborted":true}' if record.aborted else "}")
