"""CooperativeWork: for how long the loop does one thing, where the others wait for it.

No time is measured here (the benchmark `neighbours` does that). What is counted is how often others have their turn,
and what is left to Python's collector, which stops everybody.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.cooperative import run_cooperatively
from forebay.core.errors import S3Error
from forebay.origin.oss_adapter import PartCrc64, PartCrc64Table
from forebay.policy.access import authorise_keys
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.body.aws_chunked_decoder import LINES_PER_STEP
from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.body.payload import AwsChunkedPayload, PayloadReader
from forebay.protocol.operations import Access, classify
from forebay.protocol.oss.oss_origin_request import to_oss_request
from forebay.protocol.target import parse_target
from forebay.protocol.xml.s3_documents import (
    UploadedPart,
    completion_document,
    read_parts_cooperatively,
    write_completion_cooperatively,
)
from forebay.server.telemetry.exposition import LINES
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.recovery_scan import JournalScan, PendingRecord
from forebay.write.back.journal_loader import RECORDS
from forebay.write.body_digest import BodyDigest, combining_digests
from forebay.write.incoming_body import decode_piece
from harness.aws_chunked import Framing
from harness.clients import RawClient
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.reference_sigv4 import UNSIGNED_CHUNKS_TRAILER
from harness.write_back_rig import WriteBackRig
from security.served_others import serving

MANY: Final = 20
TINY: Final = b"1\r\na\r\n"


async def _turns_during(work: Coroutine[Any, Any, Any]) -> int:
    """How often somebody else had a turn before `work` was done."""
    turns, done = 0, False

    async def count() -> None:
        nonlocal turns
        while not done:
            turns += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        group.create_task(count())
        await asyncio.sleep(0)
        try:
            await work
        finally:
            done = True
    return turns


def _reader(length: int) -> PayloadReader:
    headers = {"x-amz-decoded-content-length": str(length), "content-encoding": "aws-chunked"}
    return PayloadReader(AwsChunkedPayload(ChunkedMode.UNSIGNED_TRAILER), None, CIMultiDictProxy(CIMultiDict(headers)))


async def test_a_flood_of_tiny_chunks_lets_others_have_their_turn() -> None:
    """An upload that announces much may come in many chunks: what one read of the socket holds takes a tenth of a
    second to take apart."""
    chunks, taken = 40_000, list[Any]()

    async def read() -> None:
        taken.extend(await decode_piece(_reader(5 << 30), TINY * chunks))

    assert await _turns_during(read()) >= 2 * chunks // LINES_PER_STEP
    assert b"".join(taken) == b"a" * chunks
    assert len(taken) == 1, "they go on as one piece: each costs, wherever it goes"


async def test_all_of_a_piece_is_judged_before_any_of_it_goes_on() -> None:
    with pytest.raises(S3Error):
        await decode_piece(_reader(5 << 30), TINY * 1000 + b"nothing that would be a chunk\r\n")


async def test_a_large_document_lets_others_have_their_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as (rig, _):
        listed = b"".join(b"<Object><Key>%04d%b</Key></Object>" % (number, b"k" * 900) for number in range(1000))
        request = rig.client().request("POST", "/bucket?delete", (), b"<Delete>" + listed + b"</Delete>")
        assert await _turns_during(request) >= len(listed) >> 12


ETAG: Final = f'"{"0" * 32}"'
PARTS: Final = 10_000


async def test_keys_to_delete_are_judged_while_others_have_their_turn() -> None:
    """What a grant costs a key is the client's choice: a thousand long ones under a few grants took two seconds."""
    who = Principal("p", tuple(Grant(Pattern(f"b/*/{number}/**"), frozenset(Access)) for number in range(5)))
    operation = classify("POST", target := parse_target("/b?delete", "", ()), CIMultiDict())
    keys = [f"{number}{'k' * 900}/4/x" for number in range(1000)]
    judging = run_cooperatively(authorise_keys(who, operation, target, keys))
    assert await _turns_during(judging) >= len(keys)


async def test_a_completion_of_many_parts_lets_others_have_their_turn() -> None:
    """Read, planned, and told anew."""
    listed = [UploadedPart(number, ETAG) for number in range(1, PARTS + 1)]
    document = completion_document(listed)
    read = list[UploadedPart]()

    async def reading() -> None:
        read.extend(await run_cooperatively(read_parts_cooperatively(document)))

    assert await _turns_during(reading()) >= len(document) >> 12
    assert read == listed
    assert await _turns_during(run_cooperatively(write_completion_cooperatively(listed))) >= PARTS >> 8
    for_oss = to_oss_request("CompleteMultipartUpload", "POST", (), (), document, "r", on_bucket=False)
    assert await _turns_during(run_cooperatively(for_oss)) >= len(document) >> 12
    sums, upload = PartCrc64Table(), ("b", "k", "u")
    for number, etag, _ in listed:
        sums.add(upload, number, PartCrc64(etag, number, number))
    assert await _turns_during(run_cooperatively(sums.combined(upload, [each[:2] for each in listed]))) >= PARTS >> 4
    assert (
        await _turns_during(run_cooperatively(combining_digests(BodyDigest(number, number) for number in range(PARTS))))
        >= PARTS >> 4
    )


async def test_one_that_is_uploaded_lets_others_have_their_turn(tmp_path: Path) -> None:
    """All of its way, with parts that are not there."""
    document = completion_document([UploadedPart(number, ETAG) for number in range(1, PARTS + 1)])
    async with serving(tmp_path) as (rig, _):
        request = rig.client().request("POST", "/bucket/key?uploadId=none", (), document)
        assert await _turns_during(request) >= 2 * len(document) >> 12


async def test_a_scrape_lets_others_have_their_turn(tmp_path: Path) -> None:
    """Each access key is a line of its own."""
    keys = 2000
    async with serving(tmp_path) as (rig, _):
        for number in range(keys):
            rig.parts.context.metrics.count("forebay_key_requests_total", f"key-{number}")
        assert await _turns_during(rig.worker.control.metrics()) >= keys // LINES


async def test_a_journal_that_is_read_again_lets_others_have_their_turn(tmp_path: Path) -> None:
    """Each minute, with all that is pending."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        pending = [PendingRecord(RecordId("a" * 32, number), {}, b"") for number in range(2000)]
        settled = {("ckpt", f"key-{number}", "null"): (number, "") for number in range(2000)}
        loading = run_cooperatively(rig.write_back.loader.load(JournalScan(pending, settled=settled)))
        assert await _turns_during(loading) >= (len(pending) + len(settled)) // RECORDS


async def _deep_xml(client: RawClient) -> None:
    answer = await client.request("POST", "/bucket?delete", (), b"<a>" * 100_000)
    assert answer.status == 400 or answer.aborted


async def _tiny_chunks(client: RawClient) -> None:
    framing = Framing(UNSIGNED_CHUNKS_TRAILER, size=1)
    answer = await client.request("PUT", "/bucket/tiny", (), bytes(20_000), framing=framing)
    assert answer.status == 403 or answer.aborted


async def _two_lengths(client: RawClient) -> None:
    answer = await client.unsigned("PUT", "/bucket/key", [("Content-Length", "7")], b"1")
    assert answer.status == 400


async def _no_such_key(client: RawClient) -> None:
    assert (await client.request("GET", "/bucket/none")).status == 404


async def _nobody(client: RawClient) -> None:
    assert (await client.unsigned("GET", "/bucket/others")).status == 403


@pytest.mark.parametrize("refused", [_deep_xml, _tiny_chunks, _two_lengths, _no_such_key, _nobody])
def test_refused_request_leaves_no_garbage_cycles(
    refused: Callable[[RawClient], Awaitable[None]], tmp_path: Path
) -> None:
    """Neither the connection, nor the body: they are freed as they go, not all at once while everybody waits."""

    async def found() -> int:
        async with serving(tmp_path) as (rig, _):
            for _ in range(3):
                await refused(rig.client())
            gc.collect()
            gc.disable()
            try:
                for _ in range(MANY):
                    await refused(rig.client())
                await run_loop_until(lambda: not rig.worker.listener.connections)
                await asyncio.sleep(0)
                return gc.collect()
            finally:
                gc.enable()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # asyncio's own transports are cycles
        assert runner.run(found()) < MANY
