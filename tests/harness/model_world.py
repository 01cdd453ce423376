"""A world for the reference model: an origin's bucket, a Forebay in front of it, and steps that are checked.

A step is a tuple: what is done, and with what (`World.do`). Writes go through Forebay or behind its back; after each
answer the model is asked whether it may be (harness.reference_model). Time is moved by hand, the clock that freshness
is judged by together with the timers of Forebay. Listings and plans have modules of their own (harness.model_listings,
harness.model_plans).
"""

import base64
import contextlib
import fcntl
import hashlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from forebay.server.composition import compose
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.loader import load_settings
from forebay.settings.model import Settings
from forebay.storage.cache_origin import CacheOrigin
from forebay.storage.run_record import begin_run
from harness.clients import path_of
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.manual_timers import ManualTimers
from harness.memory_exchange import MemoryReply, handle_request
from harness.model_listings import ListingSteps
from harness.model_plans import PlanSteps
from harness.oss_origin import OssOrigin
from harness.reference_model import Model, Version

BLOCK: Final = 64 * 1024
EPOCH: Final = 1_800_000_000.0
Step = tuple[Any, ...]

_CONFIGURATION: Final = """\
[origin]
endpoint = "{endpoint}"
dialect = "{dialect}"
region = "test-1"
anonymous = true
max_run = "128KiB"
gap = "64KiB"

[memory]
size = "{memory}"
buffers = "8MiB"
ahead = "16MiB"

[ssd]
path = "{directory}"
size = "16MiB"

[auth]
mode = "open"

[[rules]]
path = "*/always/**"
freshness = "always"

[[rules]]
path = "*/immutable/**"
freshness = "immutable"
listing = "immutable"

[[rules]]
path = "*/warmed/**"
warm_on_write = true

[[rules]]
path = "**"
freshness = "60s"
listing = "60s"
block = "64KiB"
"""


def bytes_of(drawn: tuple[int, int]) -> bytes:
    size, seed = drawn
    return bytes((seed * 31 + i // 251 + i) & 0xFF for i in range(256)) * (size // 256) + bytes([seed]) * (size % 256)


class World:
    """One sequence of steps."""

    def __init__(self, origin: FakeOrigin, bucket: str, directory: Path, memory: str) -> None:
        self.origin, self.bucket, self.directory = origin, bucket, directory
        self.now = EPOCH
        self.model = Model()
        self.has_memory = memory != "0"
        self.is_damaged = False
        """Whether blocks on the SSD are damaged."""
        dialect = "oss" if isinstance(origin, OssOrigin) else "swift"
        text = _CONFIGURATION.format(endpoint=origin.endpoint, dialect=dialect, directory=directory, memory=memory)
        self.settings = load_settings(text, {}, {}, lambda _: "").settings
        self.listings = ListingSteps(self.model, bucket)
        self.plans = PlanSteps(bucket)
        origin.store.create_bucket(bucket)

    async def start(self, settings: Settings | None = None) -> None:
        """Start a Forebay, in place of the one before, which is ended. `settings`: if they are others."""
        chosen = self.settings if settings is None else settings
        run = begin_run(str(self.directory.with_name("state")), CacheOrigin.of(chosen.all_origins[0].endpoint))
        self.timers = ManualTimers()
        self.parts = compose(chosen, Metrics(), lambda: self.now, run=run, timers=self.timers)
        await self.parts.jobs.plans.coordinator.start()

    async def restart(self, settings: Settings | None = None) -> None:
        """End the Forebay, and start another one."""
        await self.close()
        await self.start(settings)
        self.plans.restart()

    async def close(self) -> None:
        """End the Forebay: nothing is left behind, and the origin has seen nothing of what is Forebay's own."""
        self.parts.jobs.plans.coordinator.close()
        await self.parts.context.tasks.wait_idle()
        self.parts.jobs.prefetcher.drop_all()
        if self.parts.jobs.kept_recordings is not None:
            await self.parts.jobs.kept_recordings.close()
        assert len(self.parts.fetch.flights) == 0
        assert self.parts.storage.budget.in_use == 0
        assert self.parts.storage.tiers.memory.ahead.budget.in_use == 0
        assert not any(".forebay" in str(request.key) for request in self.origin.log.requests)
        if self.parts.storage.tiers.ssd is not None:
            await self.parts.storage.tiers.ssd.close()
        await self.parts.origins.of(None).close()

    async def ask_target(self, method: str, target: str, *headers: tuple[str, str], body: bytes = b"") -> MemoryReply:
        """Send a request."""
        return await handle_request(self.parts.requests.gateway, method, target, headers, body)

    async def get(self, target: str) -> MemoryReply:
        """Send a GET of a target."""
        return await self.ask_target("GET", target)

    async def ask(self, method: str, name: str, *headers: tuple[str, str], body: bytes = b"") -> MemoryReply:
        """Send a request for an object."""
        if method == "GET":
            self.plans.note_read(name)
        return await self.ask_target(method, path_of(self.bucket, name), *headers, body=body)

    async def do(self, action: str, *given: Any) -> None:
        """Do a step. AssertionError: what was answered may not be."""
        match action, given:
            case "get", (name,):
                self.check(name, await self.ask("GET", name), None)
            case "no-cache", (name,):
                reply = await self.ask("GET", name, ("Cache-Control", "no-cache"))
                self.check_one_of([self.model.current(name)], reply, None)
            case "range", (name, start, length):
                reply = await self.ask("GET", name, ("Range", f"bytes={start}-{start + length}"))
                self.check(name, reply, lambda body: (start, start + length + 1))
            case "suffix", (name, length):
                reply = await self.ask("GET", name, ("Range", f"bytes=-{length}"))
                self.check(name, reply, lambda body: (max(0, len(body) - length), len(body) if length else 0))
            case "head", (name,):
                self.check_head(name, await self.ask("HEAD", name))
            case "if-none-match", (name,):
                await self.check_condition(name)
            case "put", (name, drawn):
                body = bytes_of(drawn)
                assert (await self.ask("PUT", name, body=body)).status == 200
                self.model.change(name, body, self.now, through=True)
            case "copy", (source, target):
                reply = await self.ask(
                    "PUT",
                    target,
                    ("x-amz-copy-source", f"{self.bucket}/{source}"),
                    ("x-amz-metadata-directive", "REPLACE"),
                )
                body_or_none = self.model.current(source)
                assert (reply.status == 200) == (body_or_none is not None)
                if reply.status == 200:
                    self.model.change(target, body_or_none, self.now, through=True)
            case "delete", (name,):
                assert (await self.ask("DELETE", name)).status == 204
                self.model.change(name, None, self.now, through=True)
            case "delete-many", (names,):
                await self.delete_many(names)
            case "foreign-put", (name, drawn):
                self.origin.store.put(self.bucket, name, bytes_of(drawn))
                self.model.change(name, bytes_of(drawn), self.now, through=False)
            case "foreign-delete", (name,):
                self.origin.store.delete(self.bucket, name)
                self.model.change(name, None, self.now, through=False)
            case "later", (seconds,):
                self.now += seconds
                self.timers.advance(seconds)
            case "evict-memory", ():
                self.parts.storage.tiers.memory.purge(self.bucket, "")
            case "restart", ():
                await self.restart()
            case "restart-without-ssd", ():
                await self.restart(replace(self.settings, ssd=None))
            case "restart-while-in-use", ():
                await self.close()
                with (self.directory / "forebay.lock").open() as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    await self.start()
                self.plans.restart()
            case "list", (version, query):
                await self.listings.follow(self.get, version, query, lambda: self.now)
            case "plan", (name, keys):
                await self.plans.send(self.ask_target, name, keys)
            case "cancel", (name,):
                await self.plans.cancel(self.ask_target, name)
                await self.plans.check_given_back(self.parts)
            case "plans", ():
                await self.plans.check(self.ask_target)
            case "epoch", (name, keys):
                await self.read_epoch(name, keys)
            case "attach", ():
                if self.parts.storage.ssd is not None:
                    assert await self.parts.storage.ssd.attempt() is None
            case "corrupt", (position,):
                await self.corrupt(position)
            case _:
                raise AssertionError(f"unknown step {action}")

    async def read_epoch(self, name: str, keys: list[str]) -> None:
        """Send a plan, let it fetch all, and read it: the origin sends nothing any more."""
        await self.plans.send(self.ask_target, name, keys)
        plan = await self.plans.settle(self.parts, self.timers, name)
        # Not certain: heads that only the SSD has, a moment later; damaged blocks, which plans take for cached; and
        # what was replaced behind the back of a head that is fresh, which fails, and is left to its reader.
        is_certain = self.has_memory and not self.is_damaged
        is_certain &= plan.failed == sum(self.model.current(key) is None for key in keys)
        before = len(self.origin.log.requests)
        replies = {key: await self.ask("GET", key) for key in keys}
        for key, reply in replies.items():
            self.check(key, reply, None)
        if is_certain:
            asked = [each for each in self.origin.log.requests[before:] if each.method == "GET" and each.bytes_sent]
            assert not [each for each in asked if self.model.current(str(each.key))], asked
        plan = await self.plans.settle(self.parts, self.timers, name)
        assert plan.late == 0 or not is_certain, plan
        answered = sum(reply.status == 200 and len(reply.body) > 0 for reply in replies.values())
        assert plan.read == answered or self.is_damaged, plan

    async def delete_many(self, names: list[str]) -> None:
        listed = "".join(f"<Object><Key>{name}</Key></Object>" for name in names)
        body = f"<Delete>{listed}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        reply = await handle_request(
            self.parts.requests.gateway, "POST", f"/{self.bucket}?delete", [("Content-MD5", digest)], body
        )
        assert reply.status == 200, reply
        for name in names:
            self.model.change(name, None, self.now, through=True)

    async def corrupt(self, position: int) -> None:
        """Turn a byte of every segment on the SSD, and have the next read look there."""
        self.is_damaged = True
        await self.parts.storage.tiers.flush()
        for segment in (self.directory / "segments").iterdir():
            # Reclaim may take a segment away while it is looked at.
            with contextlib.suppress(FileNotFoundError), segment.open("r+b") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(position % size)
                    byte = file.read(1)
                    file.seek(position % size)
                    file.write(bytes([byte[0] ^ 0xFF]))
        self.parts.storage.tiers.memory.purge(self.bucket, "")

    def check(self, name: str, reply: MemoryReply, cut: Any) -> None:
        self.check_one_of(self.model.allowed(name, self.now), reply, cut)

    def check_one_of(self, allowed: list[Version], reply: MemoryReply, cut: Any) -> None:
        if reply.aborted:
            # A version of which the head has left, and which the origin has no more, is broken off where it is damaged.
            assert self.is_damaged
            assert any(each is not None and _begins(each, reply, cut) for each in allowed[1:]), reply.headers
            return
        assert any(_is(version, reply, cut) for version in allowed), (
            reply.status,
            dict(reply.headers),
            len(reply.body),
            [version and (len(version), md5_etag(version)) for version in allowed],
        )

    def check_head(self, name: str, reply: MemoryReply) -> None:
        allowed = self.model.allowed(name, self.now)
        if reply.status == 404:
            assert None in allowed
            return
        assert reply.status == 200
        assert (int(reply.headers["Content-Length"]), reply.headers["ETag"].lower()) in [
            (len(version), md5_etag(version)) for version in allowed if version is not None
        ]

    async def check_condition(self, name: str) -> None:
        current = self.model.current(name)
        reply = await self.ask("GET", name, ("If-None-Match", md5_etag(current or b"")))
        allowed = self.model.allowed(name, self.now)
        if reply.status == 304:
            assert current in allowed
        else:
            self.check(name, reply, None)


def _begins(version: bytes, reply: MemoryReply, cut: Any) -> bool:
    """Whether what there is of `reply` is of `version`."""
    start, _ = cut(version) if cut is not None else (0, 0)
    return version[start : start + len(reply.body)] == bytes(reply.body)


def _is(version: Version, reply: MemoryReply, cut: Any) -> bool:
    """Whether `reply` answers with `version`, and with nothing but it."""
    if version is None:
        return reply.status == 404
    if cut is None:
        return (
            reply.status == 200 and bytes(reply.body) == version and reply.headers["ETag"].lower() == md5_etag(version)
        )
    start, stop = cut(version)
    if start >= len(version) or start >= stop:
        return reply.status == 416
    stop = min(stop, len(version))
    return (
        reply.status == 206
        and bytes(reply.body) == version[start:stop]
        and reply.headers["ETag"].lower() == md5_etag(version)
        and reply.headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(version)}"
    )
