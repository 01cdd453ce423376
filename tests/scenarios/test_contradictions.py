"""Responses that contradict what is known or what they say themselves: never believed, never relayed as a success."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from forebay.core.byte_ranges import Span
from harness.clients import path_of
from harness.fake import actions
from harness.fake.actions import Action
from harness.fake_origin import FakeOrigin
from harness.inspection import cache_status
from harness.oss_origin import OssOrigin
from harness.raw_connection import RawAnswer
from harness.rig import Rig

BODY = b"content" * 1000
OBJECT = path_of("bucket", "key")
NO_CACHE = (("Cache-Control", "no-cache"),)
FRESHNESS = ("immutable", "60s", "always")


def rule(freshness: str, more: str = "") -> str:
    return f'[[rules]]\npath = "**"\nfreshness = "{freshness}"\nblock = "64KiB"\n{more}'


def empty(etag: str) -> tuple[Action, ...]:
    """A success without a byte, of the version with this ETag."""
    return (actions.Respond(200, headers=(("ETag", etag),)),)


@asynccontextmanager
async def forebay(
    directory: Path, rest: str, kind: type[FakeOrigin] = FakeOrigin, **settings: str
) -> AsyncIterator[tuple[Rig, FakeOrigin, str]]:
    """A Forebay in front of an origin with one object; yields its ETag as well."""
    dialect = {"dialect": "oss"} if kind is OssOrigin else {}
    async with (
        kind() as origin,
        Rig(origin.endpoint, origin.secret, directory, rest=rest, **settings, **dialect) as rig,
    ):
        stored = origin.store.put("bucket", "key", BODY)
        yield rig, origin, stored.etag


async def get(rig: Rig, *headers: tuple[str, str]) -> RawAnswer:
    return await rig.client().request("GET", OBJECT, headers)


def contradictions(rig: Rig) -> int:
    return rig.parts.context.metrics.total("forebay_heads_contradicted_total")


@pytest.mark.parametrize("kind", [FakeOrigin, OssOrigin])
@pytest.mark.parametrize("freshness", FRESHNESS)
@pytest.mark.parametrize("known", [False, True])
async def test_an_empty_head_is_not_believed(
    tmp_path: Path, kind: type[FakeOrigin], freshness: str, known: bool
) -> None:
    async with forebay(tmp_path, rule(freshness), kind, ssd="64MiB") as (rig, origin, etag):
        if known:
            await get(rig)
        lie = origin.faults.add(*empty(etag), method="HEAD", times=1)
        answer = await rig.client().request("HEAD", OBJECT, NO_CACHE)
        assert (answer.status, answer.headers["Content-Length"]) == (200, str(len(BODY)))
        origin.faults.remove(lie)
        assert (await get(rig)).body == BODY
        await rig.restart()
        assert (await get(rig)).body == BODY


@pytest.mark.parametrize("kind", [FakeOrigin, OssOrigin])
@pytest.mark.parametrize("freshness", FRESHNESS)
async def test_an_empty_success_for_a_304_is_not_believed(
    tmp_path: Path, kind: type[FakeOrigin], freshness: str
) -> None:
    async with forebay(tmp_path, rule(freshness), kind, ssd="64MiB") as (rig, origin, etag):
        await get(rig)
        origin.faults.add(*empty(etag), method="GET", times=1)
        if freshness == "60s":
            rig.advance_clock(61)
        assert (await get(rig, *NO_CACHE)).body == BODY
        assert (await get(rig)).body == BODY
        await rig.restart()
        assert (await get(rig)).body == BODY


@pytest.mark.parametrize("kind", [FakeOrigin, OssOrigin])
@pytest.mark.parametrize("freshness", FRESHNESS)
@pytest.mark.parametrize("known", [False, True])
async def test_empty_successes_in_a_row_end_with_the_fault(
    tmp_path: Path, kind: type[FakeOrigin], freshness: str, known: bool
) -> None:
    """Each 304 would confirm a head of no bytes, so there is none to confirm."""
    async with forebay(tmp_path, rule(freshness), kind, ssd="64MiB") as (rig, origin, etag):
        if known:
            await get(rig)
        lie = origin.faults.add(*empty(etag), key="key")
        for _ in range(3):
            assert (await get(rig, *NO_CACHE)).status == 200
        origin.faults.remove(lie)
        assert (await get(rig)).body == BODY
        await rig.restart()
        assert (await get(rig)).body == BODY


async def test_contradictions_are_counted(tmp_path: Path) -> None:
    async with forebay(tmp_path, rule("60s")) as (rig, origin, etag):
        await get(rig)
        rig.advance_clock(61)
        origin.faults.add(*empty(etag), method="GET", times=1)
        assert (await get(rig)).body == BODY
        assert contradictions(rig) == 1


async def test_an_empty_object_with_an_odd_etag_is_read(tmp_path: Path) -> None:
    """Such ETags have objects that were uploaded in parts, or encrypted: a GET confirms what a HEAD says."""
    async with forebay(tmp_path, rule("immutable"), ssd="64MiB") as (rig, origin, _):
        origin.store.put("bucket", "empty", b"")
        origin.faults.add(actions.change_headers(etag='"0123456789abcdef0123456789abcdef-1"'), key="empty")
        for method in ("HEAD", "GET"):
            answer = await rig.client().request(method, path_of("bucket", "empty"))
            assert (answer.status, answer.headers["Content-Length"], answer.body) == (200, "0", b"")
        assert cache_status(answer) == (200, "miss")


WRONG: dict[str, Callable[[Span, int], tuple[Action, ...]]] = {
    "shorter than its range": lambda span, size: (actions.AnnounceLength(span.length - 1),),
    "a smaller total": lambda span, size: (actions.WrongTotal(size // 2),),
    "no range": lambda span, size: (actions.change_headers("content-range"),),
    "another range": lambda span, size: (actions.AnotherRange("bytes=1-2"),),
    "chunks, fewer than its range": lambda span, size: (
        actions.change_headers(content_range=f"bytes 0-{span.stop}/{size}"),
        actions.ChunkedBody(),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("way", ["cached", "by id", "not accelerated"])
@pytest.mark.parametrize("stays", [False, True])
async def test_a_wrong_206_is_never_a_success(tmp_path: Path, wrong: str, way: str, stays: bool) -> None:
    rest = rule("immutable", "accelerate = false\n" if way == "not accelerated" else "")
    async with forebay(tmp_path, rest) as (rig, origin, _):
        span, expected = Span(0, len(BODY)), BODY
        origin.faults.add(*WRONG[wrong](span, len(BODY)), method="GET", range=True, times=None if stays else 1)
        target = f"{OBJECT}?versionId=null" if way == "by id" else OBJECT
        answer = await rig.client().request("GET", target, [("Range", f"bytes=0-{len(BODY) - 1}")])
        whole = not answer.aborted and answer.status in {200, 206} and answer.body == expected
        assert answer.aborted or answer.status in {500, 502, 503} or whole, (answer.status, len(answer.body))
        if not stays and way == "cached":
            assert whole
        origin.faults.clear()
        assert (await rig.client().request("GET", target)).body == BODY
