"""The source of a copied part: its bytes, its conditions and its range, at the origin and in the journal."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from multidict import CIMultiDict

from forebay.core.buffers import Buffer
from forebay.core.byte_ranges import Span
from forebay.core.errors import S3Error
from forebay.core.heads import ObjectFacts, head_of
from forebay.core.names import ObjectName, Version
from forebay.origin.credentials import StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_server import OriginServer
from forebay.origin.origins import Origins
from forebay.protocol.exchange import BytesBody, Request
from forebay.protocol.operations import classify
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.target import Target
from forebay.storage.journal.body_file import BodyDamaged, BodyRef
from forebay.storage.journal.log_writer import RecordId
from forebay.storage.journal.pending_objects import BodyPart, PendingObjects, PendingVersion
from forebay.write.back.accept.copy_sources import CopySources, SourceBody
from forebay.write.forward_request import ForwardRequest
from harness.fake.actions import Respond
from harness.fake_origin import FakeOrigin

CONTENT = bytes(range(256)) * 5000
"""More than a MiB."""
ETAG = '"e"'


async def _no_file(_ref: BodyRef, _span: Span) -> Buffer:
    raise BodyDamaged("gone")


def _pending(*, head: bool = True, file: BodyRef | None = None) -> PendingObjects:
    pending = PendingObjects(_no_file)
    facts = ObjectFacts(Version(ETAG), len(CONTENT), "Mon, 23 Nov 2026 00:00:00 GMT", ())
    parts = (BodyPart(len(CONTENT), b"" if file is not None else CONTENT, file),) if head else ()
    version = PendingVersion(RecordId("l", 0), 0, head_of(facts, 1 << 20, 0.0) if head else None, parts)
    pending.add(ObjectName("bucket", "pending"), version)
    return pending


@asynccontextmanager
async def _sources(pending: PendingObjects | None = None) -> AsyncIterator[tuple[FakeOrigin, CopySources]]:
    async with FakeOrigin() as origin:
        origin.store.put("bucket", "stored", CONTENT)
        origin.store.put("bucket", "empty", b"")
        key = StaticCredentials(SecretKey(origin.secret.access, origin.secret.secret))
        async with OriginClient(OriginServer(origin.endpoint, origin.secret.region, DIALECTS["minio"]), key) as client:
            yield origin, CopySources(Origins.single(client), pending or _pending())


def _forward(source: str, **more: str) -> ForwardRequest:
    query = (("partNumber", "1"), ("uploadId", "u"))
    headers = CIMultiDict({"x-amz-copy-source": source})
    headers.extend({f"x-amz-copy-source-{name.replace('_', '-')}": value for name, value in more.items()})
    target = Target("", "", "bucket", "part", query)
    request = Request("PUT", "/bucket/part", "h", headers, BytesBody(b""), False, 0.0, "127.0.0.1")
    return ForwardRequest(request, target, classify("PUT", target, headers), None)


async def _read(source: SourceBody) -> bytes:
    content = b"".join([bytes(piece) async for piece in source.pieces()])
    assert len(content) == source.size
    return content


@pytest.mark.parametrize("key", ["stored", "pending"])
async def test_bytes_come_from_where_readers_see_them(key: str) -> None:
    async with _sources() as (_, sources):
        assert await _read(await sources.open(_forward(f"/bucket/{key}"))) == CONTENT
        last = len(CONTENT) - 1
        assert await _read(await sources.open(_forward(f"bucket/{key}", range=f"bytes=7-{last}"))) == CONTENT[7:]
        for wrong in ("bytes=7-", f"bytes=0-{last + 1}", "bytes=8-7", "7-8"):
            with pytest.raises(S3Error, match="within the source"):
                await sources.open(_forward(f"bucket/{key}", range=wrong))


async def test_conditions_are_judged_against_the_source() -> None:
    async with _sources() as (origin, sources):
        etag = origin.store.get("bucket", "stored").etag
        for key, current in (("stored", etag), ("pending", ETAG)):
            await sources.open(_forward(f"bucket/{key}", if_match=current, if_unmodified_since="garbage"))
            for name, value in (("if_match", '"other"'), ("if_none_match", current)):
                with pytest.raises(S3Error, match="PreconditionFailed"):
                    await sources.open(_forward(f"bucket/{key}", **{name: value}))


async def test_a_source_that_is_not_there_is_named_as_by_s3() -> None:
    async with _sources(_pending(head=False)) as (origin, sources):
        for key in ("pending", "missing"):
            with pytest.raises(S3Error, match="NoSuchKey"):
                await sources.open(_forward(f"bucket/{key}"))
        origin.faults.add(Respond(403, "AccessDenied"))
        with pytest.raises(S3Error, match="AccessDenied"):
            await sources.open(_forward("bucket/stored"))


async def test_an_empty_source_needs_no_bytes() -> None:
    async with _sources() as (_, sources):
        assert await _read(await sources.open(_forward("bucket/empty"))) == b""


async def test_a_source_that_changes_while_it_is_read_fails() -> None:
    pending = _pending(file=BodyRef("gone", len(CONTENT), 0))
    async with _sources(pending) as (origin, sources):
        source = await sources.open(_forward("bucket/stored"))
        origin.store.put("bucket", "stored", b"another")
        with pytest.raises(S3Error, match="has changed"):
            await _read(source)
        source = await sources.open(_forward("bucket/pending"))
        pending.remove(ObjectName("bucket", "pending"), RecordId("l", 0))
        with pytest.raises(S3Error, match="has changed"):
            await _read(source)


async def test_a_source_that_is_damaged_here_is_named() -> None:
    async with _sources(_pending(file=BodyRef("gone", len(CONTENT), 0))) as (_, sources):
        with pytest.raises(S3Error, match="its bytes in the journal can't be read: gone"):
            await _read(await sources.open(_forward("bucket/pending")))


async def test_a_version_is_read_by_its_id() -> None:
    async with _sources() as (origin, sources):
        origin.store.bucket("bucket").versioning = "Enabled"
        first = origin.store.put("bucket", "versions", CONTENT)
        origin.store.put("bucket", "versions", b"second")
        source = await sources.open(_forward(f"bucket/versions?versionId={first.version_id}"))
        assert await _read(source) == CONTENT
