"""One cell of the matrix: an operation while the origin fails in one way, then the same object when it is healthy.

    prepare ──> fault on ──> the operation, and a healthy object beside it ──> fault off ──> what is left behind

What is wrong is returned, in words; nothing is raised for it. The promises, in the order in which they are checked:

    complete     an answer that looks complete and successful is right, and an acknowledged write is at the origin
    refusal      anything else is Forebay's 503 or a refusal that the fault makes the origin say
    neighbour    another object is served meanwhile
    recovery     afterwards every read is right: by the rule, by no-cache, from the cache, block by block
    nothing left no flight, no buffer, no request at the origin, no spooled byte, no task, no error in the log; ready
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from faults.matrix import Cell, Setting, Timing
from faults.origin_faults import CANARY, Fault
from faults.read_operations import Operation, object_complaint
from faults.scene import BLOCK, ORIGIN, RULES, SMALLEST, Pairs, Scene
from forebay.core.byte_ranges import Span
from forebay.core.names import ObjectName
from harness.clients import RawClient, path_of
from harness.fake.faults import Rule
from harness.fake.gate import Gate
from harness.fake.store import StoredObject
from harness.fake_origin import FakeOrigin
from harness.jumping_loop import JumpingLoop
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import TRAINER, Rig

NEIGHBOUR: Final = path_of("neighbour", "key")
_LONGEST: Final = 3600.0
"""Seconds on the clock that jumps: whatever takes longer hangs."""
_CHECK_INTERVAL: Final = 300.0
_CONTENT: Final = b"healthy"
_UNAVAILABLE: Final = 503
"""Forebay's own. In OSS's dialect a refusal that OSS doesn't know is 500; a failure of ours is seen in the log."""


class _Errors(logging.Handler):
    """Records of our own failures: level error and above, whoever logs them."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        failure = record.exc_info[1] if record.exc_info else None
        self.found.append(f"{record.name}: {record.getMessage()}{f' ({failure!r})' if failure else ''}")


@contextmanager
def _logged_errors() -> Iterator[list[str]]:
    handler = _Errors()
    logging.getLogger().addHandler(handler)
    try:
        yield handler.found
    finally:
        logging.getLogger().removeHandler(handler)


@dataclass(slots=True)
class Bench:
    """A Forebay and its origin, for any number of cells, one after the other."""

    loop: JumpingLoop
    origin: FakeOrigin
    rig: Rig
    setting: Setting
    errors: list[str]
    kept: int = 0
    """Bytes that an earlier cell has left behind, for which no other cell is blamed."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    async def run(self, cell: Cell) -> list[str]:
        """What is wrong with the cell; empty if nothing is."""
        operation, fault, timing = cell.operation, cell.fault, cell.timing
        scene = Scene(self.rig, self.origin, f"cell-{next(self._numbers)}")
        try:
            async with asyncio.timeout(_LONGEST):
                await operation.prepare(scene)
                await self.rig.wait_idle()
            wrong = await self._fail(scene, operation, fault, timing)
            await self._abort_upload(scene, operation)
            if cell.unknowable:
                wrong = [each for each in wrong if not each.startswith("complete")]
                await scene.get()
            if cell.believed:
                await self.rig.parts.metadata.invalidator.invalidate([ObjectName(scene.bucket, scene.key)])
            wrong += await self._recover(scene, cell)
            wrong += await self._left(scene)
        except TimeoutError:
            return ["hangs"]
        finally:
            self.origin.faults.clear()
            del self.origin.store.buckets[scene.bucket]
        return wrong

    async def _fail(self, scene: Scene, operation: Operation, fault: Fault, timing: Timing) -> list[str]:
        gate = Gate()
        rule = await self._start(scene, fault, timing, gate)
        try:
            # What has to succeed must not find its time passed on a busy machine.
            must_succeed = fault.harmless or not operation.asks_origin
            with nullcontext() if must_succeed else self.loop.jumping():
                async with asyncio.timeout(_LONGEST):
                    answer = await operation.perform(scene)
            wrong = self._judge(scene, operation, fault, answer, rule)
            wrong += await self._check_neighbour(fault)
            if operation.effect == "write" and not fault.refuses_connections:
                # A write whose answer was lost may be performed after this read, which must not hide it.
                self.origin.faults.clear()
                await scene.get()
        finally:
            gate.open()
            self.origin.faults.clear()
            if fault.refuses_connections:
                await self.origin.listen()
        with self.loop.jumping():
            async with asyncio.timeout(_LONGEST):
                await self.rig.wait_idle()
                await self.origin.log.wait_idle()
                await self.rig.wait_idle()
        return wrong

    async def _start(self, scene: Scene, fault: Fault, timing: Timing, gate: Gate) -> Rule:
        if fault.refuses_connections:
            await self.origin.refuse()
            self.origin.disconnect(idle_only=False)
        return self.origin.faults.add(*fault.actions(gate), bucket=scene.bucket, skip=timing.skip, times=timing.times)

    def _judge(self, scene: Scene, operation: Operation, fault: Fault, answer: RawAnswer, rule: Rule) -> list[str]:
        broken = answer.aborted and not operation.may_break
        if fault.harmless and (broken or answer.status not in operation.honest):
            return [f"complete: {answer.status}{', broken off' if broken else ''}, where all is well"]
        if answer.aborted:
            return [] if operation.asks_origin else ["a hit was broken off"]
        allowed = operation.honest | fault.refusals | {_UNAVAILABLE, 200, 206} | ({500} if operation.oss else set())
        if answer.status not in allowed:
            return [f"complete: {answer.status}, which neither Forebay nor the origin may say"]
        if not operation.asks_origin and answer.status not in operation.honest:
            return [f"complete: a hit was answered with {answer.status}"]
        if (not rule.applied and not fault.refuses_connections) and answer.status not in operation.honest:
            return [f"complete: {answer.status}, though the origin did not fail"]
        if answer.status < 300:
            complaint = operation.complaint(scene, answer)
            return [f"complete: {answer.status}, {complaint}"] if complaint else []
        return []

    async def _check_neighbour(self, fault: Fault) -> list[str]:
        strict = () if fault.refuses_connections else (("Cache-Control", "no-cache"),)
        answer = await self._client.request("GET", NEIGHBOUR, strict)
        right = (answer.status, answer.body, answer.aborted) == (200, _CONTENT, False)
        return [] if right else [f"neighbour: {answer.status} {answer.body[:80]!r}"]

    @staticmethod
    async def _abort_upload(scene: Scene, operation: Operation) -> None:
        """Ends an upload in parts that the operation left open, which would occupy the spool."""
        if "upload" in scene.notes:
            client = scene.oss if operation.oss else scene.client
            await client.request("DELETE", scene.target(uploadId=scene.notes["upload"]))

    async def _recover(self, scene: Scene, cell: Cell) -> list[str]:
        """Every read of the healthy object."""
        wrong: list[str] = []
        truth = scene.current()
        possible = [truth] if cell.operation.effect == "write" else [*scene.versions, truth]
        reads: list[tuple[str, Pairs, list[StoredObject | None]]] = [
            ("no-cache", (("Cache-Control", "no-cache"),), [truth]),
            ("afterwards", (), [truth]),
            ("again", (), [truth]),
        ]
        if not cell.unknowable:
            reads.insert(0, ("by the rule", (), possible))
        for title, headers, versions in reads:
            scene.versions = [each for each in versions if each is not None]
            answer = await scene.get(*headers)
            if answer.aborted and cell.operation.may_break and title == "by the rule":
                answer = await scene.get(*headers)
            wrong += self._compare(scene, f"recovery, {title}", answer, absent=truth is None)
        if truth is None:
            return wrong
        wrong += self._compare(scene, "recovery, HEAD", await scene.get(method="HEAD"), absent=False, bodiless=True)
        for start in range(0, truth.size, BLOCK):
            span = Span(start, min(start + BLOCK, truth.size))
            answer = await scene.get(("Range", f"bytes={span.start}-{span.stop - 1}"))
            wrong += self._compare(scene, f"recovery, block {start // BLOCK}", answer, absent=False, span=span)
        return wrong

    @staticmethod
    def _compare(scene: Scene, title: str, answer: RawAnswer, *, absent: bool, **kind: Any) -> list[str]:
        if absent:
            return [] if answer.status == 404 else [f"{title}: {answer.status} for what is not there"]
        if answer.aborted or answer.status not in {200, 206}:
            return [f"{title}: {answer.status}{', aborted' if answer.aborted else ''}"]
        complaint = object_complaint(scene, answer, **kind)
        return [f"{title}: {complaint} ({answer.headers.get('x-forebay-cache')})"] if complaint else []

    async def _left(self, scene: Scene) -> list[str]:
        await self.rig.wait_idle()
        parts = self.rig.parts
        gauges = {
            "flights": len(parts.fetch.flights),
            "buffers": parts.storage.budget.in_use - self.kept,
            "reads at the origin": parts.origins.of(None).reads.in_use,
            "writes at the origin": parts.origins.of(None).writes.in_use,
            "spool": parts.storage.spool.in_use - self.kept,
            "tasks": len(parts.context.tasks),
        }
        wrong = [f"left: {name} {value}" for name, value in gauges.items() if value]
        self.kept = parts.storage.spool.in_use
        wrong += [f"left: in the log, {error}" for error in self.errors]
        self.errors.clear()
        if any(each.target.startswith(f"/{CANARY}") for each in self.origin.log.requests):
            wrong.append("left: a redirect was followed")
        self.origin.log.reset()
        return wrong + await self._check_readiness()

    async def _check_readiness(self) -> list[str]:
        admin = RawClient(self.rig.admin, TRAINER)
        for _ in range(2):
            if (await admin.unsigned("GET", "/readyz")).status == 200:
                return []
            self.loop.advance(self.rig.check_interval)
            await self.origin.log.wait_for(self.origin.log.count("HEAD", "ListBuckets") + 1, "HEAD", "ListBuckets")
            await self.rig.wait_idle()
        return ["left: not ready"]

    @property
    def _client(self) -> RawClient:
        return self.rig.client()


@asynccontextmanager
async def bench(loop: JumpingLoop, directory: Path, setting: Setting) -> AsyncIterator[Bench]:
    """A Forebay in front of an origin, and a healthy object that is cached."""
    more: dict[str, Any] = {"dialect": "oss"} if setting.origin == "oss" else {}
    if setting.ssd:
        more |= {"ssd": "64MiB", "memory": "1MiB"}
    with _logged_errors() as errors:
        behind = FakeOrigin(verify=False, smallest_part=SMALLEST) if setting.origin == "s3" else OssOrigin(verify=False)
        async with behind as origin:
            rig = Rig(origin.endpoint, origin.secret, directory, origin=ORIGIN, rest=RULES, **more)
            rig.check_interval = _CHECK_INTERVAL  # each check that is skipped to takes some milliseconds
            async with rig:
                if not setting.fast_lane:
                    rig.worker.listener.reads.fast_lane = None
                origin.store.put("neighbour", "key", _CONTENT)
                assert (await rig.client().request("GET", NEIGHBOUR)).body == _CONTENT
                yield Bench(loop, origin, rig, setting, errors)
