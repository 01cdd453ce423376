"""The end of the soak: everything acknowledged is at the origin, everybody reads it, and nothing is left behind."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from forebay.write.back.journal_check import check_journal
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from soak.cell_content import CELL
from soak.data_bucket import DATA, EPOCH_KEYS, data_keys
from soak.disturbances import Admin
from soak.write_history import GONE, WriteHistory, effect_of

_PATIENCE: Final = 90.0
_ZERO: Final = (
    "forebay_flights",
    "forebay_flight_readers",
    "forebay_buffer_used_bytes",
    "forebay_buffer_waiting",
    "forebay_held_bytes",
    "forebay_journal_writes",
    "forebay_journal_objects",
    "forebay_journal_pending_bytes",
    "forebay_journal_stuck",
    "forebay_journal_conflicts",
    "forebay_journal_uploads",
    "forebay_journal_upload_bytes",
    "forebay_plans",
    "forebay_plan_lead_bytes",
    "forebay_ahead_used_bytes",
    "forebay_socket_channels",
    "forebay_socket_ring_bytes",
    "forebay_socket_file_bytes",
)
"""Gauges."""
_UPLOAD: Final = re.compile(rb"<Upload>.*?<Key>([^<]*)</Key>.*?<UploadId>([^<]*)</UploadId>", re.DOTALL)


async def flush(admin: Admin, bucket: str, between: Callable[[], Awaitable[None]] | None = None) -> None:
    """Waits until the journal has nothing that the origin has not. `between`: called before each attempt."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            if between is not None:
                await between()
            status, flushed = await admin("POST", "/v1/flush", {"bucket": bucket, "wait": 5})
            if status == 200 and flushed["left"] == 0:
                return
            await asyncio.sleep(0.2)


async def end_plans_and_uploads(admin: Admin, client: RawClient) -> None:
    """Cancels plans, and aborts uploads whose clients lost them."""
    _, plans = await admin("GET", "/v1/plans")
    for plan in plans["plans"]:
        await admin("DELETE", f"/v1/plans/{plan['id']}")
    answer = await client.request("GET", f"{path_of(DATA)}?uploads=")
    assert answer.status == 200, answer
    for key, upload in _UPLOAD.findall(answer.body):
        answer = await client.request("DELETE", f"{path_of(DATA, key.decode())}?uploadId={upload.decode()}")
        assert answer.status in {204, 404}, answer


async def verify_data(origin: FakeOrigin, history: WriteHistory, clients: list[RawClient]) -> None:
    """The origin has what was acknowledged last of each key, and every worker answers with that."""
    assert not history.violations, history.violations
    members = await _members(clients[0])
    for key in [*data_keys(), *EPOCH_KEYS]:
        since = history.since(key)
        versions = origin.store.buckets[DATA].versions.get(key)
        stored = effect_of(b"".join(versions[-1].content.views(0, CELL))) if versions else GONE
        if stored != GONE or key not in members:
            history.verify_stored(key, stored)
        for number, client in enumerate(clients):
            answer = await client.request("GET", path_of(DATA, key))
            what = f"the end, worker {number}, origin {stored!r}"
            if answer.status == 404:
                history.verify_absent(key, since, what)
            else:
                assert answer.status == 200, answer
                history.verify_body(key, since, answer.body, "compared at the end")
                assert stored in {GONE, effect_of(answer.body)}, f"{what}: {effect_of(answer.body)}{history.trail(key)}"


async def _members(client: RawClient) -> set[str]:
    """Keys that the bucket shows: of those a member may be no object at the origin."""
    answer = await client.request("GET", f"{path_of(DATA)}?list-type=2&prefix=members%2F")
    return {key.decode() for key in re.findall(rb"<Key>([^<]*)</Key>", answer.body)}


async def verify_gauges(admin: Admin) -> None:
    """Waits until each of the gauges is zero."""
    held: dict[str, float] = {}
    try:
        async with asyncio.timeout(_PATIENCE):
            while held := _held(await _metrics(admin)):  # noqa: ASYNC110 # workers tell nobody
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"held in the end: {held}") from None


async def _metrics(admin: Admin) -> str:
    _, text = await admin("GET", "/metrics")
    assert isinstance(text, str)
    return text


def _held(metrics: str) -> dict[str, float]:
    found = {name: re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", metrics, re.MULTILINE) for name in _ZERO}
    missing = [name for name, values in found.items() if not values and name != "forebay_plans"]
    assert not missing, f"the gauges have other names: {missing}"
    return {name: total for name, values in found.items() if (total := sum(map(float, values)))}


def verify_journal(journal: Path) -> None:
    """Nothing is pending in it, nothing damaged, and it has no file that nobody needs."""
    report = check_journal(journal)
    assert report.is_whole, report
    assert not report.writes, report.writes
    assert not report.unfinished_parts, report
    bodies = [file.name for file in (journal / "bodies").iterdir()]
    assert not bodies, f"bodies without a record: {bodies}"


def verify_no_process() -> None:
    """No process is left, but the one that others were forked from."""
    left = [pid for pid in _children(os.getpid()) if b"harness.forked_process" not in _command(pid) or _children(pid)]
    assert not left, f"processes are left: {[(pid, _command(pid)) for pid in left]}"


def _children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
