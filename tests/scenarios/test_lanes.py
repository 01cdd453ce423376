"""Both lanes answer alike: the same requests to the same hits, with the fast lane and without, byte for byte."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.events import ObjectRead
from forebay.core.names import ObjectName
from forebay.core.read_stream import BATCH_SECONDS
from harness.clients import path_of
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.manual_timers import ManualTimers
from harness.rig import READER, TRAINER, Rig
from security.oss_signers import ALL_SIGNERS
from security.signers import SIGNERS, Form

MIB = 1 << 20
ETAG = md5_etag(b"0123456789" * 400)
EARLY, LATE = "Wed, 18 Nov 1998 10:00:00 GMT", "Wed, 18 Nov 2037 10:00:00 GMT"
CASES: dict[str, tuple[str, str, Sequence[tuple[str, str]]]] = {
    "whole": ("GET", path_of("b", "open/small"), ()),
    "head": ("HEAD", path_of("b", "open/small"), ()),
    "empty": ("GET", path_of("b", "open/empty"), ()),
    "several blocks": ("GET", path_of("b", "open/large"), ()),
    "range": ("GET", path_of("b", "open/large"), [("Range", "bytes=100-1500000")]),
    "suffix": ("GET", path_of("b", "open/large"), [("Range", "bytes=-10")]),
    "head of a range": ("HEAD", path_of("b", "open/large"), [("Range", "bytes=5-")]),
    "range beyond": ("GET", path_of("b", "open/small"), [("Range", "bytes=99999-")]),
    "range of nothing": ("GET", path_of("b", "open/empty"), [("Range", "bytes=0-")]),
    "two ranges": ("GET", path_of("b", "open/small"), [("Range", "bytes=0-1,3-4")]),
    "if-match": ("GET", path_of("b", "open/small"), [("If-Match", "*")]),
    "if-match of another": ("GET", path_of("b", "open/small"), [("If-Match", '"other"')]),
    "if-match of it": ("GET", path_of("b", "open/small"), [("If-Match", ETAG), ("Range", "bytes=5-99")]),
    "if-none-match": ("GET", path_of("b", "open/small"), [("If-None-Match", "*")]),
    "if-none-match of it": ("GET", path_of("b", "open/small"), [("If-None-Match", f"W/{ETAG}")]),
    "if-none-match of its head": ("HEAD", path_of("b", "open/small"), [("If-None-Match", ETAG)]),
    "if-none-match of another": ("GET", path_of("b", "open/small"), [("If-None-Match", '"other"')]),
    "if-modified-since": ("GET", path_of("b", "open/small"), [("If-Modified-Since", LATE)]),
    "if-unmodified-since": ("GET", path_of("b", "open/small"), [("If-Unmodified-Since", LATE)]),
    "if-unmodified-since long ago": ("GET", path_of("b", "open/small"), [("If-Unmodified-Since", EARLY)]),
    "awkward key": ("GET", path_of("b", "open/ä //..%2F+?#"), ()),
    "x-id": ("GET", path_of("b", "open/small") + "?x-id=GetObject", ()),
    "key that is not there": ("GET", path_of("b", "open/none"), ()),
    "key out of reach": ("GET", path_of("b", "closed/small"), ()),
    "checksums asked for": ("GET", path_of("b", "open/small"), [("x-amz-checksum-mode", "ENABLED")]),
    "checksums of a head": ("HEAD", path_of("b", "open/small"), [("x-amz-checksum-mode", "ENABLED")]),
    "two range headers": ("GET", path_of("b", "open/small"), [("Range", "bytes=0-1"), ("Range", "bytes=3-4")]),
    "tagging": ("GET", path_of("b", "open/small") + "?tagging", ()),
    "keep-alive said": ("GET", path_of("b", "open/small"), [("Connection", "keep-alive")]),
}

# Those that the fast lane answers itself; the others it leaves.
FAST = frozenset(CASES) - {
    "two ranges",
    "range beyond",
    "range of nothing",
    "if-match of another",
    "if-unmodified-since long ago",
    "key that is not there",
    "tagging",
}


async def fill(origin: FakeOrigin) -> None:
    headers = {"content_type": "text/plain", "x_amz_meta_colour": "red", "cache_control": "max-age=5"}
    for key in ("open/small", "closed/small", "open/ä //..%2F+?#"):
        origin.store.put("b", key, b"0123456789" * 400, **headers)
    origin.store.put("b", "open/empty", b"", **headers)
    origin.store.put("b", "open/large", bytes(range(256)) * (3 * MIB // 256), **headers)


@pytest.mark.parametrize("case", CASES)
async def test_the_lanes_answer_alike(tmp_path: Path, case: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        await fill(origin)
        for secret in (READER, TRAINER):
            client = rig.client(secret)
            method, target, headers = CASES[case]
            await client.request(method, target, headers)  # now it is a hit, if it can be one
            await client.request("GET", target)
            lane = rig.worker.listener.reads.fast_lane
            assert lane is not None
            before = _fast(rig)
            fast = await client.request(method, target, headers)
            allowed = secret == TRAINER or case != "key out of reach"
            assert _fast(rig) - before == (case in FAST and allowed)
            rig.worker.listener.reads.fast_lane = None
            full = await client.request(method, target, headers)
            rig.worker.listener.reads.fast_lane = lane
            assert (fast.status, _document(fast.body)) == (full.status, _document(full.body))
            assert _lasting(fast.pairs) == _lasting(full.pairs)


@pytest.mark.parametrize("case", sorted(FAST - {"key out of reach"}))
async def test_the_lanes_answer_alike_in_open_mode(tmp_path: Path, case: str) -> None:
    """Both send the headers that keep a browser from running objects, and refuse a web page that comes between."""
    async with FakeOrigin() as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path)
        keys = rig.configuration[rig.configuration.index("[[auth.keys]]") :]
        rig.configuration = rig.configuration.replace(keys, '[auth]\nmode = "open"\n')
        async with rig:
            await fill(origin)
            method, target, headers = CASES[case]
            client, lane = rig.client(), rig.worker.listener.reads.fast_lane
            await client.unsigned("GET", target)
            for _ in range(2):  # the second by a template
                before = _fast(rig)
                fast = await client.unsigned(method, target, headers)
                assert _fast(rig) - before == 1
                page = await client.unsigned(method, target, [*headers, ("Sec-Fetch-Site", "cross-site")])
                assert page.status == 403
            rig.worker.listener.reads.fast_lane = None
            full = await client.unsigned(method, target, headers)
            rig.worker.listener.reads.fast_lane = lane
            assert (fast.status, fast.body, _lasting(fast.pairs)) == (full.status, full.body, _lasting(full.pairs))
            assert full.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
            assert full.headers["X-Content-Type-Options"] == "nosniff"


OSS_CASES = {
    **{name: case for name, case in CASES.items() if not name.startswith(("x-id", "checksums", "two range headers"))},
    "meta": ("HEAD", path_of("b", "open/small") + "?objectMeta", ()),
    "range that reaches beyond": ("GET", path_of("b", "open/small"), [("Range", "bytes=5-99999")]),
    "the same, by the standard": (
        "GET",
        path_of("b", "open/small"),
        [("Range", "bytes=5-99999"), ("x-oss-range-behavior", "standard")],
    ),
    "beyond, by the standard": (
        "GET",
        path_of("b", "open/small"),
        [("Range", "bytes=99999-"), ("x-oss-range-behavior", "standard")],
    ),
    "processed": ("GET", path_of("b", "open/small") + "?x-oss-process=image/resize,w_1", ()),
}
# OSS ignores a range that is not in the object, unless it is asked for the standard's way.
OSS_FAST = (FAST & OSS_CASES.keys()) | {
    "two ranges",
    "range beyond",
    "range of nothing",
    "meta",
    "range that reaches beyond",
    "the same, by the standard",
}


@pytest.mark.parametrize("form", ALL_SIGNERS, ids="-".join)
async def test_the_lanes_answer_every_form_alike(tmp_path: Path, form: Form) -> None:
    """Each case again: by then its shape is known."""
    cases, answered = (CASES, FAST) if form in SIGNERS else (OSS_CASES, OSS_FAST)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        await fill(origin)
        client = rig.client()
        requests = {
            name: ALL_SIGNERS[form](TRAINER, method, target, headers, b"", rig.now(), None)
            for name, (method, target, headers) in cases.items()
        }
        for request in requests.values():
            await client.send(request)
        for name, request in requests.items():
            before, lane = _fast(rig), rig.worker.listener.reads.fast_lane
            answers = [await client.send(request) for _ in range(2)]
            assert _fast(rig) - before == 2 * (name in answered), name
            rig.worker.listener.reads.fast_lane = None
            full = await client.send(request)
            rig.worker.listener.reads.fast_lane = lane
            for answer in answers:
                assert (answer.status, _document(answer.body)) == (full.status, _document(full.body)), name
                assert _lasting(answer.pairs) == _lasting(full.pairs), name


async def test_both_lanes_emit_the_same_object_reads(tmp_path: Path) -> None:
    """Each case on either lane: an event for each response with bytes, none for HEAD, 304, errors and empty objects."""
    reads, timers = list[ObjectRead](), ManualTimers()
    silent, emitting = 0, 0
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, timers) as rig:
        await fill(origin)
        client, lane = rig.client(), rig.worker.listener.reads.fast_lane
        assert lane is not None
        for method, target, headers in CASES.values():
            await client.request("GET", target)
            await client.request(method, target, headers)
        rig.parts.jobs.node_reads.subscribe(lambda batch: reads.extend(batch.reads))

        def emitted() -> list[ObjectRead]:
            timers.advance(BATCH_SECONDS)
            found = reads[:]
            reads.clear()
            return found

        for name in sorted(FAST):
            method, target, headers = CASES[name]
            answer = await client.request(method, target, headers)
            fast = emitted()
            rig.worker.listener.reads.fast_lane = None
            await client.request(method, target, headers)
            rig.worker.listener.reads.fast_lane = lane
            assert fast == emitted(), name
            assert len(fast) == (1 if answer.body else 0), name
            for event in fast:
                assert event.span.length == len(answer.body) <= event.size
                assert (event.principal, event.cache) == ("trainer", "hit-memory")
                assert event.name.path == unquote(target.partition("?")[0]).removeprefix("/")
            emitting, silent = emitting + len(fast), silent + (not fast)
        assert min(emitting, silent) >= 5
        await client.request("GET", path_of("b", "open/none"))
        await client.request("GET", path_of("b", "open/small") + "?response-content-type=a")
        await client.request("GET", path_of("b", "open/small") + "?tagging")
        assert emitted() == []
        origin.store.put("b", "open/cold", b"cold")
        for _ in range(2):  # a miss, then a hit
            await client.request("GET", path_of("b", "open/cold"))
        read = ObjectRead(ObjectName("b", "open/cold"), Span(0, 4), 4, "trainer", "default", "miss", 0.0)
        assert emitted() == [read, read._replace(cache="hit-memory", cached=1.0)]


async def test_an_ssd_hit_takes_the_fast_lane_and_is_in_memory_from_then_on(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, ssd="64MiB") as rig:
        origin.store.put("b", "open/block", bytes(MIB))
        target = path_of("b", "open/block")
        await rig.client().request("GET", target)
        await rig.parts.storage.tiers.flush()
        await rig.restart()
        seen = [(await rig.client().request("GET", target)).headers["x-forebay-cache"] for _ in range(2)]
        assert seen == ["hit-ssd", "hit-memory"]
        assert _fast(rig) == 2


async def test_unread_bytes_count_against_the_budget(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, buffers="16MiB") as rig:
        await fill(origin)
        client, target = rig.client(), path_of("b", "open/large")
        whole = (await client.request("GET", target)).body
        connections = []
        for answered in (1, 2):
            connection = await client.open(receive_buffer=4096)
            await connection.send(client.sign("GET", target).wire)
            await _fast_answers(rig, answered)
            assert rig.parts.storage.budget.in_use == answered * 3 * MIB
            connections.append(connection)
        assert (await client.request("GET", target)).body == whole  # a third has no room: by the full lane
        assert _fast(rig) == 2
        assert (await connections[0].answer()).body == whole
        connections[1].reset()
        await run_loop_until(lambda: rig.parts.storage.budget.in_use == 0)
        await connections[0].close()


async def test_pipelined_requests_are_answered_in_their_order(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        await fill(origin)
        client = rig.client()
        hits = [client.sign("GET", path_of("b", key)) for key in ("open/small", "open/empty", "closed/small")]
        for hit in hits:
            await client.send(hit)
        before = _fast(rig)
        async with await client.open() as connection:
            wires = [hit.wire for hit in hits] * 5
            await connection.send(b"".join(wires))
            lengths = [len((await connection.answer()).body) for _ in wires]
            assert lengths == [4000, 0, 4000] * 5
            assert _fast(rig) - before == 15
            # One that is no hit in the middle: what is behind it waits for its answer, and is as fast then.
            missing = client.sign("GET", path_of("b", "open/none")).wire
            await connection.send(b"".join((*wires[:4], missing, *wires[:4])))
            statuses = [(await connection.answer()).status for _ in range(9)]
            assert statuses == [200] * 4 + [404] + [200] * 4
            assert _fast(rig) - before == 23


def _lasting(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        pair for pair in pairs if pair[0].lower() not in {"date", "x-amz-request-id", "x-amz-id-2", "x-oss-request-id"}
    ]


def _document(body: bytes) -> bytes:
    return re.sub(rb"<RequestId>[^<]*</RequestId>", b"", body)


def _fast(rig: Rig) -> int:
    """How many requests the fast lane has answered."""
    requests = rig.parts.context.metrics.counters["forebay_requests_total"]
    return sum(count for (_operation, _status, lane), count in requests.items() if lane == "fast")


async def _fast_answers(rig: Rig, count: int) -> None:
    await run_loop_until(lambda: _fast(rig) == count)


async def test_a_client_that_takes_nothing_of_a_fast_answer_is_broken_off(tmp_path: Path) -> None:
    impatient, timers = '[limits]\nbody_timeout = "1s"\nidle_timeout = "60s"\n', ManualTimers()
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, timers, buffers="8MiB", rest=impatient) as rig,
        asyncio.timeout(20),
    ):
        await fill(origin)
        client, target = rig.client(), path_of("b", "open/large")
        await client.request("GET", target)
        async with await client.open(receive_buffer=4096) as connection:
            await connection.send(client.sign("GET", target).wire)
            await _fast_answers(rig, 1)
            assert rig.parts.storage.budget.in_use == 3 * MIB
            with timers.flowing(0.1):
                await run_loop_until(lambda: rig.parts.storage.budget.in_use == 0)
            assert timers.time() >= 1.0
            assert (await connection.answer()).aborted
