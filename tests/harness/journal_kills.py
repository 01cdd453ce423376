"""Writers whose worker is killed again and again, over one journal and one origin, and what must hold in the end."""

import asyncio
import hashlib
import itertools
import json
import os
import re
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, TypeAlias
from urllib.parse import quote

from forebay.core.task_registry import TaskRegistry
from harness.clients import RawClient, path_of
from harness.fake.actions import Action, Drop, HoldHead, HoldRequest
from harness.fake.faults import Rule
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.origin_history import AcknowledgedWrite, Effect, RecordingStore, check_history
from harness.rig import TRAINER, configuration_of

RULES: Final = '[journal]\npath = "{path}"\nsize = "256MiB"\n\n[[rules]]\npath = "ckpt/**"\nwrite = "back"\n'
LARGE: Final = 300_000
"""Bytes of a body that has a file of its own."""
Write: TypeAlias = Callable[[RawClient, int], Awaitable[object]]
JOURNAL_POINTS: Final = (
    *(f"{when} create {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
    *(f"{when} open {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
    *(f"{when} lock {kind}" for when in ("before", "after") for kind in ("log", "body")),
    *(f"{when} read {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
    *(f"{when} write {kind}" for when in ("before", "within", "after") for kind in ("log", "settled", "body")),
    *(f"{when} sync {kind}" for when in ("before", "after") for kind in ("log", "settled", "body", "logs", "bodies")),
    *(f"{when} list {kind}" for when in ("before", "after") for kind in ("logs", "bodies")),
    *(f"{when} unlink {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
    *(f"{when} close {kind}" for when in ("before", "after") for kind in ("log", "settled", "body")),
)
"""Calls of the journal, each before, after or within which a worker is killed."""
ORIGIN_POINTS: Final = tuple(
    f"{operation} {how}"
    for how in ("lost", "late", "done")
    for operation in ("PutObject", "DeleteObject", "CreateMultipartUpload", "UploadPart", "CompleteMultipartUpload")
)
"""Steps at the origin during which a worker is killed: the request is lost, carried out afterwards, or carried out
before."""
_GONE: Final = b"to be deleted"


@dataclass(frozen=True)
class KillPoint:
    """When a worker is killed. `origin`: at a request to the origin, which is lost, carried out afterwards, or carried
    out before; else at a system call of the journal, of any name if it is None."""

    name: str | None
    nth: int | None
    origin: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.nth}"


class KilledWorkers:
    """See the module."""

    def __init__(self, origin: FakeOrigin, store: RecordingStore, directory: Path, random: Random) -> None:
        self.origin = origin
        self.acknowledged: list[AcknowledgedWrite] = []
        self.local = 0
        """Of them, acknowledged from the journal."""
        self.sent: list[Effect] = []
        self.kills: list[KillPoint] = []
        """Those that happened."""
        self._store = store
        self._directory = directory
        self._random = random
        self._numbers = itertools.count()
        self._template: asyncio.subprocess.Process | None = None

    @property
    def _process(self) -> asyncio.subprocess.Process:
        assert self._template is not None
        return self._template

    async def _start(self, point: KillPoint, trace: Path | None) -> tuple[int, int | None]:
        """Returns the pid and the port of a new worker; None: it was killed before it served."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "file": str(self._directory / "forebay.toml"),
            "name": None if point.origin else point.name,
            "nth": None if point.origin else point.nth,
            "trace": str(trace) if trace is not None else None,
        }
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        pid = int(await self._process.stdout.readline())
        serving = TaskRegistry().spawn(self._process.stdout.readline(), "wait until it serves")
        # The template says nothing before the next order, so a worker that is killed first is noticed by its absence.
        while not serving.done() and _is_alive(pid):  # a process that is no child of this one
            await asyncio.wait([serving], timeout=0.02)
        if not serving.done():
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving
            return pid, None
        return pid, int(serving.result().split()[1])

    async def round(self, point: KillPoint, writes: int, trace: Path | None = None) -> bool:
        """Writes through a worker until it is killed, or so many writes more are acknowledged: it is killed then.
        Returns whether the point was reached."""
        rule, held = None, None
        pid, port = 0, None
        if point.origin:
            rule, held = self._kill_at_origin(point, lambda: pid)
        pid, port = await self._start(point, trace)
        if port is not None:
            endpoint, until = f"http://127.0.0.1:{port}", len(self.acknowledged) + writes
            await asyncio.gather(*(self._client(endpoint, until) for _ in range(2)))
            if point.origin and _is_alive(pid):
                await self._write_through(endpoint)  # the origin has had every step by then
        reached = not _is_alive(pid)
        if not reached:
            _kill(pid)
        if rule is not None:
            self.origin.faults.remove(rule)
        if held is not None:
            held.cancel()
            with suppress(asyncio.CancelledError):
                await held
        if reached:
            self.kills.append(point)
        return reached

    def _kill_at_origin(self, point: KillPoint, pid: Callable[[], int]) -> tuple[Rule, "asyncio.Task[None]"]:
        operation, _, how = (point.name or "").partition(" ")
        gate = Gate()
        actions: dict[str, tuple[Action, ...]] = {
            "lost": (HoldRequest(gate), Drop()),
            "late": (HoldRequest(gate),),
            "done": (HoldHead(gate),),
        }

        async def kill() -> None:
            await gate.reached()
            _kill(pid())
            gate.open()

        rule = self.origin.faults.add(*actions[how], operation=operation, skip=point.nth or 0, times=1)
        return rule, TaskRegistry().spawn(kill(), "kill")

    async def _client(self, endpoint: str, until: int) -> None:
        client = RawClient(endpoint, TRAINER)
        with suppress(OSError, EOFError):
            while len(self.acknowledged) < until:
                write: Write = self._random.choice((self._put, self._put, self._upload, self._copy, self._delete))
                await write(client, next(self._numbers))

    async def _put(self, client: RawClient, number: int) -> None:
        size = self._random.choice((0, 100, 5000, LARGE))
        effect: Effect = (f"a/{self._random.randrange(4)}", _body(number, size))
        await self._send(client, "PUT", effect)

    async def _delete(self, client: RawClient, number: int) -> None:
        key = f"gone/{number}"
        self._store.put("ckpt", key, _GONE)
        await self._send(client, "DELETE", (key, None))

    async def _copy(self, client: RawClient, number: int) -> None:
        body = _body(number, 20)
        if await self._send(client, "PUT", (f"source/{number}", body)):
            source = (("x-amz-copy-source", quote(f"ckpt/source/{number}")),)
            await self._send(client, "PUT", (f"copy/{number}", body), headers=source)

    async def _upload(self, client: RawClient, number: int) -> None:
        effect: Effect = (f"upload/{number % 3}", _body(number, LARGE))
        path = path_of("ckpt", effect[0])
        created = await client.request("POST", f"{path}?uploads")
        found = re.search(rb"<UploadId>(.+)</UploadId>", created.body)
        if created.status != 200 or found is None:
            return
        upload = f"uploadId={quote(found[1].decode())}"
        part = await client.request("PUT", f"{path}?partNumber=1&{upload}", (), effect[1] or b"")
        if part.status != 200:
            return
        etag = hashlib.md5(effect[1] or b"", usedforsecurity=False).hexdigest()
        parts = f"<Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>"
        document = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        await self._send(client, "POST", effect, f"?{upload}", document)

    async def _send(
        self,
        client: RawClient,
        method: str,
        effect: Effect,
        query: str = "",
        body: bytes | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> bool:
        began = time.monotonic()
        self.sent.append(effect)
        sent = b"" if headers else (body if body is not None else effect[1] or b"")
        answer = await client.request(method, path_of("ckpt", effect[0]) + query, headers, sent)
        if not answer.status:
            raise EOFError  # the worker has gone
        if answer.status >= 300:
            return False
        self.local += answer.headers.get("x-forebay-durable") == "local"
        self.acknowledged.append(AcknowledgedWrite(effect, began, time.monotonic()))
        return True

    async def _write_through(self, endpoint: str) -> None:
        """Has a write go through: it comes after all that is pending."""
        headers, status = (("x-forebay-durability", "origin"),), 503
        with suppress(OSError, EOFError):
            while status == 503:
                client = RawClient(endpoint, TRAINER)
                status = (await client.request("PUT", path_of("ckpt", "through"), headers, b"")).status

    async def drain(self) -> None:
        """Has all that is pending carried out, and kills the worker then."""
        pid, port = await self._start(KillPoint(None, None), None)
        assert port is not None
        await self._write_through(f"http://127.0.0.1:{port}")
        _kill(pid)

    async def check(self) -> None:
        """Every acknowledged write is at the origin in the end, whole, in an order that its clients could have seen."""
        await self.drain()
        history = [
            effect
            for effect in self._store.history
            if effect[1] != _GONE
            and effect[0].partition("/")[0] in {"a", "gone", "source", "copy", "upload"}
            and not _is_probe(effect[0])
        ]
        acknowledged = [AcknowledgedWrite(_short(each.effect), each.began, each.ended) for each in self.acknowledged]
        check_history(acknowledged, [*map(_short, history)], [*map(_short, self.sent)])
        for key, content in dict(history).items():
            found = self._store.current("ckpt", key)
            assert (None if found is None else b"".join(found.content.views(0, found.content.size))) == content


def _body(number: int, size: int) -> bytes:
    """A body that can be told from every other, wherever a part of it is missing."""
    word = b"%d " % number
    return word * (size // len(word) + 1)


def _short(effect: Effect) -> Effect:
    """An effect with a body that can be printed: its first word, and its size. Anything else stays as it is."""
    word, _, _ = (effect[1] or b"").partition(b" ")
    is_whole = effect[1] == _body(int(word or b"0"), len(effect[1] or b"") - len(word) - 1) if word.isdigit() else False
    return (effect[0], b"%s of %d" % (word, len(effect[1] or b""))) if is_whole else effect


def _is_probe(key: str) -> bool:
    return re.fullmatch(r"(a|upload|source|copy)/\d+|gone/\d+", key) is None


def _is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _kill(pid: int) -> None:
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@asynccontextmanager
async def killed_workers(directory: Path, seed: int) -> AsyncIterator[KilledWorkers]:
    """A journal, an origin, and workers to be killed."""
    store = RecordingStore()
    async with FakeOrigin() as origin:
        origin.store = store
        store.create_bucket("ckpt")
        rules = RULES.format(path=directory / "journal")
        text = configuration_of(origin.endpoint, origin.secret, directory, rest=rules)
        file = directory / "forebay.toml"
        await asyncio.to_thread(file.write_text, text)
        await asyncio.to_thread(file.chmod, 0o600)
        killed = KilledWorkers(origin, store, directory, Random(seed))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        log = (directory / "log").open("wb")
        killed._template = await asyncio.create_subprocess_exec(  # noqa: SLF001 # made for it
            *(sys.executable, "-m", "harness.crash_worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            env=environment,
        )
        try:
            yield killed
        finally:
            log.close()
            assert killed._process.stdin is not None  # noqa: SLF001 # likewise
            killed._process.stdin.close()  # noqa: SLF001 # likewise
            await killed._process.wait()  # noqa: SLF001 # likewise
