"""The access log: one line of JSON a request, without secrets.

Lines are gathered and written some hundred at a time, off the loop, so that a request costs the formatting and no
system call. What was gathered is written at the latest after INTERVAL seconds, and at the end.
"""

import asyncio
import json
import os
from collections.abc import Callable
from typing import Final

from forebay.flights.tasks import TaskRegistry
from forebay.story.account import Account

INTERVAL: Final = 0.2
MOST_BYTES: Final = 1 << 20
"""Gathered beyond this (the reader of our output is stuck): lines are dropped, and counted, rather than kept."""


class AccessLog:
    """Writes to a file descriptor. `clock` gives seconds since the epoch."""

    def __init__(self, fd: int, tasks: TaskRegistry, clock: Callable[[], float]) -> None:
        self._fd = fd
        self._tasks = tasks
        self._clock = clock
        self._lines: list[bytes] = []
        self._gathered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False
        self.dropped = 0

    def write(self, account: Account) -> None:
        """Note one request."""
        if self._gathered > MOST_BYTES:
            self.dropped += 1
            return
        line = json.dumps(_fields(account, self._clock()), separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
        self._lines.append(line)
        self._gathered += len(line)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(INTERVAL, self._due)

    def _due(self) -> None:
        self._timer = None
        if not self._writing:
            self._tasks.spawn(self.flush(), "access log")

    async def flush(self) -> None:
        """Write what was gathered."""
        self._writing = True
        try:
            while self._lines:
                lines, self._lines, self._gathered = b"".join(self._lines), [], 0
                await asyncio.to_thread(_write_all, self._fd, lines)
        finally:
            self._writing = False


def _write_all(fd: int, lines: bytes) -> None:
    view = memoryview(lines)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return  # nobody reads our log: no reason to fail a request


def _fields(account: Account, now: float) -> dict[str, object]:
    fields: dict[str, object] = {
        "time": round(now, 3),
        "id": account.request_id,
        "peer": account.peer,
        "principal": account.principal,
        "method": account.method,
        "operation": account.operation,
        "bucket": account.bucket,
        "key": account.key,
        "status": account.status,
        "cache": account.cache,
        "rule": account.rule,
        "received": account.received,
        "sent": account.sent,
        "ms": round((account.ended - account.started) * 1000, 3),
        "lane": account.lane,
    }
    if account.first_byte:
        fields["first_byte_ms"] = round((account.first_byte - account.started) * 1000, 3)
    if account.error:
        fields["error"], fields["step"] = account.error, account.step
    if account.aborted:
        fields["aborted"] = True
    return fields
