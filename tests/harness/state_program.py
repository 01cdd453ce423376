"""What a worker keeps in its directories, written and changed by one client: objects on the SSD, writes in the journal,
pins, plans, key lists, recordings, and a warm-up job.

    program = StateProgram(origin, directory, server)
    await program.round("before replace storage/pin_file", 0)       a worker that is killed there
    await program.round("before fsync jobs/state/job_store", 0, errno.EIO)  one whose call fails
    await program.round("before pwrite storage/run_record", 0, 0, is_short=True)  or writes half
    await program.check()                                            the next start on the same directories

What was acknowledged must be there; what was not may be.
"""

import asyncio
import hashlib
import json
import re
import shutil
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import aiohttp

from forebay.protocol.xml.s3_documents import UploadedPart, completion_document
from harness.clients import RawClient, path_of
from harness.fake_origin import FakeOrigin
from harness.fork_server import ForkedProcess, ForkServer
from harness.plan_rig import text
from harness.raw_connection import RawAnswer
from harness.recording_content import recording_of
from harness.rig import TRAINER, configuration_of

_RULES: Final = """
[journal]
path = "{path}"
size = "16MiB"

[[rules]]
path = "b/back/**"
write = "back"

[[rules]]
path = "b/**"
freshness = "immutable"
record = true
follow = true
"""
KEYS: Final = [f"set/{number:02}" for number in range(20)]
PLANNED: Final = [f"planned/{number:02}" for number in range(20)]
"""In plans, and read by nobody: a plan ends with its last read."""
SIZE: Final = 20_000
_REFUSED: Final = 503


class _WorkerGone(Exception):
    """It was killed, as it was to be."""


def _may_end_a_start(name: str | None) -> bool:
    """Whether a worker ends where this call fails: one that can't use its journal must not serve without it."""
    return name is not None and " storage/journal/" in name


class StateProgram:
    """See the module."""

    def __init__(self, origin: FakeOrigin, directory: Path, server: ForkServer) -> None:
        self.origin = origin
        self.calls = directory / "calls"
        """The points that the last round has reached, a line each."""
        self._directory, self._server = directory, server
        self._file = directory / "forebay.toml"
        self._number = 0
        self._objects: dict[str, set[bytes | None]] = {}
        """By key, what a reader may see."""
        self._pins: set[frozenset[str]] = {frozenset()}
        """The sets of pinned prefixes that there may be."""
        self._plans: set[int | None] = {None}
        """The numbers of entries that the plan may have; None: there may be none."""
        self._recordings: set[bool] = {False}
        """Whether the recording may be there."""
        self._client = RawClient("http://127.0.0.1:1", TRAINER)
        self._admin = ""
        self._process: ForkedProcess | None = None

    def configure(self) -> None:
        rules = _RULES.format(path=self._directory / "journal")
        text = configuration_of(self.origin.endpoint, self.origin.secret, self._directory, ssd="64MiB", rest=rules)
        self._file.write_text(text)
        self._file.chmod(0o600)
        self.origin.store.create_bucket("b")
        for key in (*KEYS, *PLANNED):
            self.origin.store.put_synthetic("b", key, SIZE)

    async def start_over(self) -> None:
        """The directories are new ones again, and nothing was acknowledged."""
        for each in ("journal", "state", "ssd"):
            await asyncio.to_thread(shutil.rmtree, self._directory / each, ignore_errors=True)
        self._objects.clear()
        self._pins, self._plans, self._recordings = {frozenset()}, {None}, {False}
        for key in ("back/small", "back/large", "back/upload", "through"):
            self.origin.store.delete("b", key)

    async def round(
        self, name: str | None, nth: int | None, error: int | None = None, *, is_short: bool = False
    ) -> list[str]:
        """Runs the program through a new worker, which is killed at this point, or fails there. Returns the points that
        it has reached. `is_short`: half is written before; 0 as the error: and nothing fails."""
        self.calls.write_bytes(b"")
        order = self._order(name, nth, error, is_short=is_short)
        process = self._process = await self._server.fork(order)
        port = await process.port()
        assert port is not None or error is None or _may_end_a_start(name), f"{name} fails: the worker does not start"
        if port is not None:
            await self._use(process, port)
        process.kill()
        await process.wait_exit()
        return self.calls.read_text().splitlines()

    async def check(self) -> None:
        """Starts once more: what was acknowledged is there."""
        process = self._process = await self._server.fork(self._order(None, None, None, is_short=False))
        port = await process.port()
        assert port is not None, "it does not start again"
        self._connect(process, port)
        for key, possible in self._objects.items():
            answer = await self._client.request("GET", path_of("b", key))
            found = answer.body if answer.status == 200 else None
            assert answer.status in {200, 404}, answer
            assert found in possible, (key, answer.status, possible)
            self._objects[key] = {found}
        for key in KEYS:
            answer = await self._client.request("GET", path_of("b", key))
            assert (answer.status, len(answer.body)) == (200, SIZE), answer
        _, pins = await self._ask("GET", "/v1/pins")
        pinned = frozenset(str(each["prefix"]) for each in pins["pins"])
        assert pinned in self._pins, (pinned, self._pins)
        self._pins = {pinned}
        answer = await self._client.request("GET", path_of("b", ".forebay/plans/order"))
        entries = int(json.loads(answer.body)["entries"]) if answer.status == 200 else None
        assert entries in self._plans, (answer, self._plans)
        self._plans = {entries}
        answer = await self._client.request("GET", path_of("b", ".forebay/recordings/kept"))
        assert (answer.status == 200) in self._recordings, (answer, self._recordings)
        self._recordings = {answer.status == 200}
        status, jobs = await self._ask("GET", "/v1/jobs")
        assert status == 200, jobs
        process.kill()
        await process.wait_exit()

    def _order(self, name: str | None, nth: int | None, error: int | None, *, is_short: bool) -> dict[str, Any]:
        which = {"name": name, "nth": nth, "error": error, "is_short": is_short}
        return {"file": str(self._file), "calls": str(self.calls), **which}

    def _connect(self, process: ForkedProcess, port: int) -> None:
        self._client = RawClient(f"http://127.0.0.1:{port}", TRAINER)
        self._admin = f"http://127.0.0.1:{process.admin_port}"

    async def _use(self, process: ForkedProcess, port: int) -> None:
        self._connect(process, port)
        self._number += 1
        steps: list[Callable[[], Awaitable[None]]] = [
            lambda: self._put("back/small", 100),
            lambda: self._put("back/large", 300_000),
            lambda: self._put("through", 30_000),
            self._read_all,
            self._pin,
            self._plan,
            self._record,
            self._warm,
            lambda: self._put("through", 40_000),
            lambda: self._delete("back/small"),
            lambda: self._delete("through"),
            self._upload,
            self._unpin,
            self._replace_plan,
            self._end_plan,
            self._plan,
            self._forget_recording,
            self._record,
        ]
        with suppress(_WorkerGone):
            for step in steps:
                await step()

    async def _send(self, method: str, key: str, body: bytes = b"") -> RawAnswer:
        path, _, query = key.partition("?")
        target = path_of("b", path) + (f"?{query}" if query else "")
        try:
            answer = await self._client.request(method, target, (), body)
        except OSError:
            answer = RawAnswer(0, (), aborted=True)
        if answer.aborted or not answer.status:
            await self._await_end()
            raise _WorkerGone
        assert answer.status in {200, 204, 404, _REFUSED}, answer
        if answer.status == _REFUSED and method != "HEAD":
            assert b"<Code>" in answer.body, answer
        return answer

    async def _ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(method, self._admin + path, json=body) as answer,
            ):
                assert answer.status < 500 or answer.status == _REFUSED, (method, path, answer.status)
                return answer.status, json.loads(await answer.read() or b"null")
        except (aiohttp.ClientError, OSError):
            await self._await_end()
            raise _WorkerGone from None

    async def _await_end(self) -> None:
        """A connection that breaks is the end of the worker."""
        assert self._process is not None
        async with asyncio.timeout(30):
            await self._process.wait_exit()

    async def _put(self, key: str, size: int) -> None:
        content = f"{self._number:07} ".encode() * (size // 8)
        await self._change(key, content, lambda: self._send("PUT", key, content))

    async def _upload(self) -> None:
        key, content = "back/upload", f"{self._number:07} ".encode() * 40_000
        created = await self._send("POST", f"{key}?uploads")
        found = re.search(rb"<UploadId>(.+)</UploadId>", created.body)
        if created.status != 200 or found is None:
            return
        query = f"uploadId={found[1].decode()}"
        part = await self._send("PUT", f"{key}?partNumber=1&{query}", content)
        if part.status == 200:
            body = completion_document([UploadedPart(1, part.headers["ETag"])])
            await self._change(key, content, lambda: self._send("POST", f"{key}?{query}", body))

    async def _change(self, key: str, content: bytes | None, send: Callable[[], Awaitable[RawAnswer]]) -> None:
        """Writes an object, or deletes it, and reads it if that is acknowledged."""
        before = self._objects.get(key, {None})
        self._objects[key] = {*before, content}
        if (await send()).status in {200, 204}:
            self._objects[key] = {content}
            answer = await self._send("GET", key)
            if answer.status == _REFUSED:  # its only copy, in the journal, can't be read; one call has failed
                answer = await self._send("GET", key)
            assert (answer.body if answer.status == 200 else None) == content, answer

    async def _delete(self, key: str) -> None:
        await self._change(key, None, lambda: self._send("DELETE", key))

    async def _read_all(self) -> None:
        for key in KEYS:
            answer = await self._send("GET", key)
            assert answer.status == 200, answer

    async def _pin(self) -> None:
        changed = {each | {"set/"} for each in self._pins}
        self._pins |= changed
        status, _ = await self._ask("POST", "/v1/pins", {"bucket": "b", "prefix": "set/"})
        if status in {200, 201}:
            self._pins = changed

    async def _unpin(self) -> None:
        changed = {each - {"set/"} for each in self._pins}
        self._pins |= changed
        status, _ = await self._ask("DELETE", "/v1/pins?bucket=b&prefix=set/")
        if status in {200, 204}:
            self._pins = changed

    async def _plan(self) -> None:
        listed = text(PLANNED)
        digest = hashlib.sha256(listed).hexdigest()
        if (await self._send("PUT", f".forebay/plans/keys/{digest}", listed)).status != 200:
            return
        order = range(self._number % 5 + 3)
        body = b"FBPLAN1\n" + bytes.fromhex(digest) + struct.pack(f"<II{len(order)}I", 0, len(order), *order)
        await self._send_plan(body, len(order))

    async def _replace_plan(self) -> None:
        count = self._number % 3 + 9
        await self._send_plan(text(PLANNED[:count]), count)

    async def _send_plan(self, body: bytes, entries: int) -> None:
        before = self._plans
        self._plans = {*before, entries}
        if (await self._send("PUT", ".forebay/plans/order", body)).status == 200:
            self._plans = {entries}

    async def _end_plan(self) -> None:
        self._plans = {*self._plans, None}
        if (await self._send("DELETE", ".forebay/plans/order")).status == 204:
            self._plans = {None}

    async def _record(self) -> None:
        self._recordings = {*self._recordings, True}
        if (await self._send("PUT", ".forebay/recordings/kept", recording_of(KEYS))).status == 200:
            self._recordings = {True}

    async def _forget_recording(self) -> None:
        self._recordings = {*self._recordings, False}
        if (await self._send("DELETE", ".forebay/recordings/kept")).status == 204:
            self._recordings = {False}

    async def _warm(self) -> None:
        status, job = await self._ask("POST", "/v1/jobs", {"bucket": "b", "prefix": "set/"})
        while status in {200, 201, 202} and job["state"] in {"running", "queued"}:
            status, job = await self._ask("GET", f"/v1/jobs/{job['id']}")
