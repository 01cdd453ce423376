"""The object reader: it demands a permit, retries a replaced object, and says what is for the origin."""

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginError, OriginRefused, OriginUnfit, S3Error, VersionChanged
from forebay.core.events import ObjectRead
from forebay.core.read_stream import BATCH_SECONDS, ReadStream
from forebay.request.object_read import Bypass, ObjectReader
from harness.admitted_reads import admission_of, answer
from harness.fake.actions import FORBIDDEN, MISSING_ETAG, Action, IgnoreRange
from harness.fetch_rig import BLOCK, NAME, FetchRig, fetch_rig
from harness.memory_exchange import MemoryReply


def reader_of(rig: FetchRig, reads: list[ObjectRead] | None = None) -> ObjectReader:
    rig.origin.store.put(*NAME, b"0123456789")
    stream = ReadStream(rig.timers)
    if reads is not None:
        stream.subscribe(lambda batch: reads.extend(batch.reads))
    return ObjectReader(rig.resolver, rig.block_source(), stream)


async def test_a_permit_for_another_object_reads_nothing() -> None:
    async with fetch_rig() as rig:
        other = admission_of("GET", "/bucket/other")
        forged = admission_of("GET", "/bucket/key")._replace(permit=other.permit)
        with pytest.raises(S3Error, match="AccessDenied"):
            await answer(reader_of(rig), forged)
        assert rig.origin.log.count("GET") == 0


async def test_a_read_is_answered_and_recorded() -> None:
    reads = list[ObjectRead]()
    async with fetch_rig() as rig:
        reader = reader_of(rig, reads)
        for cache in ("miss", "hit-memory"):
            bypass, reply, record = await answer(reader, admission_of("GET", "/bucket/key", Range="bytes=2-4"))
            assert (bypass, reply.status, bytes(reply.body), reply.finished) == (None, 206, b"234", True)
            assert (record.cache, record.sent) == (cache, 3)
        rig.timers.advance(BATCH_SECONDS)
        assert reads == [
            ObjectRead(NAME, Span(2, 5), 10, "all", "default", "miss", 0.0),
            ObjectRead(NAME, Span(2, 5), 10, "all", "default", "hit-memory", 1.0),
        ]


async def test_a_read_tells_how_much_of_it_was_cached() -> None:
    reads = list[ObjectRead]()
    async with fetch_rig() as rig:
        reader = reader_of(rig, reads)
        rig.origin.store.put(*NAME, bytes(4 * BLOCK))
        for range_header in (f"bytes=0-{BLOCK - 1}", f"bytes=0-{4 * BLOCK - 1}", f"bytes=0-{4 * BLOCK - 1}"):
            await answer(reader, admission_of("GET", "/bucket/key", Range=range_header))
        rig.timers.advance(BATCH_SECONDS)
        assert [(read.cache, read.cached) for read in reads] == [("miss", 0.0), ("partial", 0.25), ("hit-memory", 1.0)]


async def test_a_response_without_bytes_emits_no_object_read() -> None:
    reads = list[ObjectRead]()
    async with fetch_rig() as rig:
        reader = reader_of(rig, reads)
        assert (await answer(reader, admission_of("HEAD", "/bucket/key")))[1].status == 200
        etag = (await answer(reader, admission_of("HEAD", "/bucket/key")))[1].headers["ETag"]
        matched = admission_of("GET", "/bucket/key", **{"If-None-Match": etag})
        assert (await answer(reader, matched))[1].status == 304
        overridden = admission_of("GET", "/bucket/key?response-content-type=a")
        assert (await answer(reader, overridden))[1].body == b"0123456789"
        rig.timers.advance(BATCH_SECONDS)
        assert reads == []


@pytest.mark.parametrize(
    ("headers", "code"), [({"If-Match": '"other"'}, "PreconditionFailed"), ({"Range": "bytes=99-"}, "InvalidRange")]
)
async def test_a_failed_condition_or_range_sends_nothing(headers: dict[str, str], code: str) -> None:
    async with fetch_rig() as rig:
        reply = MemoryReply()
        with pytest.raises(S3Error, match=code):
            await answer(reader_of(rig), admission_of("GET", "/bucket/key", **headers), reply)
        assert not reply.started


async def test_an_object_that_is_missing_is_refused_as_the_origin_does() -> None:
    async with fetch_rig() as rig:
        bypass, reply, record = await answer(reader_of(rig), admission_of("GET", "/bucket/none"))
        assert (bypass, reply.status, record.cache) == (None, 404, "miss")
        assert b"NoSuchKey" in reply.body


async def test_another_operation_is_for_the_origin() -> None:
    async with fetch_rig() as rig:
        bypass, reply, _ = await answer(reader_of(rig), admission_of("GET", "/bucket/key?tagging"))
        assert isinstance(bypass, Bypass)
        assert not reply.started


@pytest.mark.parametrize(
    ("action", "error"), [(IgnoreRange(), OriginUnfit), (MISSING_ETAG, VersionChanged), (FORBIDDEN, OriginRefused)]
)
async def test_nothing_follows_a_body_that_fails_in_the_middle(action: Action, error: type[OriginError]) -> None:
    """Neither the origin's refusal nor its own answer to the request."""
    content = bytes(range(256)) * (64 * BLOCK // 256)
    async with fetch_rig() as rig:
        reader = reader_of(rig)
        rig.origin.store.put(*NAME, content)
        rig.origin.faults.add(action, method="GET", skip=2)
        reply = MemoryReply()
        with pytest.raises(error):
            await answer(reader, admission_of("GET", "/bucket/key"), reply)
        assert (reply.length, reply.finished) == (len(content), False)
        assert 0 < len(reply.body) < len(content)
        assert content.startswith(bytes(reply.body))
