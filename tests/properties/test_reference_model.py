"""Forebay against a reference model: S3 as a dictionary, with a second, foreign writer.

A sequence of reads, writes through Forebay, foreign writes behind its back, evictions, damage, restarts (with the SSD
tier, without it, with it later) and time. After each read the model is asked which versions may have been answered:

    rule        what a read may answer
    always      the version that is current when it is asked
    60s         a version that was current within the last 60 s
    immutable   a version that was current since the last write through Forebay

and under every rule nothing older than the last write through Forebay. Whatever is answered is one version: its ETag,
its metadata and every byte of it.
"""

import asyncio
import base64
import contextlib
import fcntl
import hashlib
import os
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import uvloop
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forebay.server.composition import Parts, compose
from forebay.server.telemetry.metrics import Metrics
from forebay.settings.loader import load_settings
from forebay.settings.model import Settings
from forebay.storage.cache_origin import CacheOrigin
from forebay.storage.run_record import begin_run
from harness.clients import path_of
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.memory_exchange import MemoryReply, handle_request
from harness.oss_origin import OssOrigin
from security.scale import SCALE

BLOCK = 64 * 1024
KEYS = ("always/a", "minute/a", "minute/b", "immutable/a", "warmed/a")
WINDOWS = {"always": 0.0, "minute": 60.0, "immutable": float("inf"), "warmed": 60.0}
SIZES = (0, 1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17)
EPOCH = 1_800_000_000.0

CONFIGURATION = """\
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

[[rules]]
path = "*/warmed/**"
warm_on_write = true

[[rules]]
path = "**"
freshness = "60s"
block = "64KiB"
"""

key = st.sampled_from(KEYS)
content = st.tuples(st.sampled_from(SIZES), st.integers(0, 3))
offset = st.integers(0, 4 * BLOCK)
step = st.one_of(
    st.tuples(st.just("get"), key),
    st.tuples(st.just("get"), key),
    st.tuples(st.just("range"), key, offset, offset),
    st.tuples(st.just("suffix"), key, offset),
    st.tuples(st.just("head"), key),
    st.tuples(st.just("if-none-match"), key),
    st.tuples(st.just("no-cache"), key),
    st.tuples(st.just("put"), key, content),
    st.tuples(st.just("copy"), key, key),
    st.tuples(st.just("delete"), key),
    st.tuples(st.just("delete-many"), st.lists(key, min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("foreign-put"), key, content),
    st.tuples(st.just("foreign-delete"), key),
    st.tuples(st.just("later"), st.sampled_from((1.0, 30.0, 61.0))),
    st.tuples(st.just("evict-memory")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("restart-without-ssd")),
    st.tuples(st.just("restart-while-in-use")),
    st.tuples(st.just("attach")),
    st.tuples(st.just("corrupt"), st.integers(0, 1 << 20)),
)


def bytes_of(drawn: tuple[int, int]) -> bytes:
    size, seed = drawn
    return bytes((seed * 31 + i // 251 + i) & 0xFF for i in range(256)) * (size // 256) + bytes([seed]) * (size % 256)


@dataclass
class Model:
    """What has been current, and when. None: nothing was."""

    history: dict[str, list[tuple[float, bytes | None]]] = field(default_factory=dict)
    written: dict[str, int] = field(default_factory=dict)
    """Which entry of the history the last write through Forebay made."""

    def change(self, name: str, body: bytes | None, now: float, *, through: bool) -> None:
        entries = self.history.setdefault(name, [])
        entries.append((now, body))
        if through:
            self.written[name] = len(entries) - 1

    def current(self, name: str) -> bytes | None:
        entries = self.history.get(name)
        return entries[-1][1] if entries else None

    def allowed(self, name: str, now: float) -> list[bytes | None]:
        """Every version that a read may answer. That nothing is there is told only while nothing is."""
        entries = self.history.get(name, [])
        since = now - WINDOWS[name.partition("/")[0]]
        found: list[bytes | None] = [self.current(name)]
        for position in range(self.written.get(name, 0), len(entries)):
            ended = entries[position + 1][0] if position + 1 < len(entries) else float("inf")
            if ended >= since and position < len(entries) - 1 and entries[position][1] is not None:
                found.append(entries[position][1])
        return found


class World:
    """One sequence: an origin's bucket, a Forebay, and the model."""

    def __init__(self, origin: FakeOrigin, bucket: str, directory: Path, memory: str) -> None:
        self.origin, self.bucket, self.directory = origin, bucket, directory
        self.now = EPOCH
        self.model = Model()
        dialect = "oss" if isinstance(origin, OssOrigin) else "swift"
        text = CONFIGURATION.format(endpoint=origin.endpoint, dialect=dialect, directory=directory, memory=memory)
        self.settings = load_settings(text, {}, {}, lambda _: "").settings
        self.parts = self.compose(self.settings)
        origin.store.create_bucket(bucket)

    def compose(self, settings: Settings) -> Parts:
        run = begin_run(str(self.directory.with_name("state")), CacheOrigin.of(settings.all_origins[0].endpoint))
        return compose(settings, Metrics(), lambda: self.now, run=run)

    async def close(self) -> None:
        await self.parts.tasks.wait_idle()
        assert len(self.parts.flights) == 0
        assert self.parts.budget.in_use == 0
        if self.parts.tiers.ssd is not None:
            await self.parts.tiers.ssd.close()
        await self.parts.origins.of(None).close()

    async def ask(self, method: str, name: str, *headers: tuple[str, str], body: bytes = b"") -> MemoryReply:
        return await handle_request(self.parts.gateway, method, path_of(self.bucket, name), headers, body)

    async def do(self, action: str, *given: Any) -> None:
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
            case "evict-memory", ():
                self.parts.tiers.memory.purge(self.bucket, "")
            case "restart", ():
                await self.close()
                self.parts = self.compose(self.settings)
            case "restart-without-ssd", ():
                await self.close()
                self.parts = self.compose(replace(self.settings, ssd=None))
            case "restart-while-in-use", ():
                await self.close()
                with (self.directory / "forebay.lock").open() as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX)
                    self.parts = self.compose(self.settings)
            case "attach", ():
                if self.parts.ssd is not None:
                    assert await self.parts.ssd.attempt() is None
            case "corrupt", (position,):
                await self.corrupt(position)
            case _:
                raise AssertionError(f"unknown step {action}")

    async def delete_many(self, names: list[str]) -> None:
        listed = "".join(f"<Object><Key>{name}</Key></Object>" for name in names)
        body = f"<Delete>{listed}</Delete>".encode()
        digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        reply = await handle_request(
            self.parts.gateway, "POST", f"/{self.bucket}?delete", [("Content-MD5", digest)], body
        )
        assert reply.status == 200, reply
        for name in names:
            self.model.change(name, None, self.now, through=True)

    async def corrupt(self, position: int) -> None:
        """Turn a byte of every segment on the SSD, and have the next read look there."""
        await self.parts.tiers.flush()
        for segment in (self.directory / "segments").iterdir():
            # Reclaim may take a segment away while it is looked at.
            with contextlib.suppress(FileNotFoundError), segment.open("r+b") as file:
                size = file.seek(0, os.SEEK_END)
                if size:
                    file.seek(position % size)
                    byte = file.read(1)
                    file.seek(position % size)
                    file.write(bytes([byte[0] ^ 0xFF]))
        self.parts.tiers.memory.purge(self.bucket, "")

    def check(self, name: str, reply: MemoryReply, cut: Any) -> None:
        self.check_one_of(self.model.allowed(name, self.now), reply, cut)

    def check_one_of(self, allowed: list[bytes | None], reply: MemoryReply, cut: Any) -> None:
        assert not reply.aborted
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


def _is(version: bytes | None, reply: MemoryReply, cut: Any) -> bool:
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


def written_while_away(away: str, back: str) -> list[tuple[Any, ...]]:
    """An object is overwritten while the SSD is `away`, and read when it is `back`: a rare sequence among all."""
    return [
        ("put", "immutable/a", (1000, 1)),
        ("get", "immutable/a"),
        ("later", 1.0),
        (away,),
        ("put", "immutable/a", (1000, 2)),
        (back,),
        ("get", "immutable/a"),
    ]


async def run_sequence(origin: FakeOrigin, bucket: str, memory: str, steps: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(origin, bucket, Path(directory) / "ssd", memory)
        try:
            for action, *given in steps:
                await world.do(action, *given)
        finally:
            await world.close()
            del origin.store.buckets[bucket]
            origin.log.reset()


@pytest.mark.parametrize(("kind", "examples"), [(FakeOrigin, 250), (OssOrigin, 30)], ids=["S3", "OSS"])
def test_sequences_follow_the_reference_model(kind: type[FakeOrigin], examples: int) -> None:
    counter = iter(range(1 << 30))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        origin = kind(verify=False)
        runner.run(origin.__aenter__())

        @settings(
            max_examples=examples * SCALE,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        )
        @example("1MiB", written_while_away("restart-without-ssd", "restart"))
        @example("1MiB", written_while_away("restart-while-in-use", "restart"))
        @example("0", written_while_away("restart-while-in-use", "attach"))
        @given(st.sampled_from(("1MiB", "0")), st.lists(step, min_size=2, max_size=25))
        def sequences(memory: str, steps: list[tuple[Any, ...]]) -> None:
            runner.run(run_sequence(origin, f"bucket{next(counter)}", memory, steps))

        try:
            sequences()
        finally:
            runner.run(origin.__aexit__(None, None, None))
