"""The whole client against origins that check signatures: the fake, which uses botocore's, and a real Swift."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

import pytest

from forebay.core.byte_ranges import Span
from forebay.core.errors import OriginCredentialFault, VersionChanged
from forebay.core.names import ObjectName, Version
from forebay.origin.bucket_listing import BucketListing
from forebay.origin.credentials import StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_request import UNSIGNED_PAYLOAD, OriginRequest
from forebay.origin.origin_server import OriginServer
from forebay.origin.reads.object_reads import OriginReads
from forebay.origin.reads.origin_read import OriginRead
from forebay.origin.reads.read_outcomes import ErrorResponse, ObjectOpened, Revalidated
from forebay.protocol.signatures.signing_key import SecretKey
from harness.fake_origin import FakeOrigin
from harness.origin_client import some_of
from harness.swift import SwiftOrigin

BYTES = bytes(range(256)) * 40
KEYS = ("a//b", "/lead", "dot/../x", "a%2Fb", "plus+ and blank", "grün/日本", "what?now#then", "k" * 1000)


@dataclass
class Subject:
    client: OriginClient
    bucket: str

    async def put(self, key: str, content: bytes) -> Version:
        request = OriginRequest("PUT", self.bucket, key, body=content, payload_hash=UNSIGNED_PAYLOAD)
        async with await self.client.send(request) as answer:
            assert answer.status == 200, await answer.read(1000)
            return Version(answer.headers["ETag"])


@pytest.fixture(params=["fake", "swift"])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    if request.param == "swift":
        swift: SwiftOrigin = request.getfixturevalue("swift")
        key = SecretKey(swift.secret.access, swift.secret.secret)
        credentials = StaticCredentials(key)
        async with OriginClient(
            OriginServer(swift.endpoint, swift.secret.region, DIALECTS["swift"]), credentials
        ) as client:
            yield Subject(client, swift.fresh_bucket())
        return
    async with FakeOrigin() as fake:
        fake.store.create_bucket("bucket")
        credentials = StaticCredentials(SecretKey(fake.secret.access, fake.secret.secret))
        async with OriginClient(
            OriginServer(fake.endpoint, fake.secret.region, DIALECTS["minio"]), credentials
        ) as client:
            yield Subject(client, "bucket")


async def body_of(outcome: object) -> bytes:
    assert isinstance(outcome, ObjectOpened), outcome
    body = b""
    while piece := await some_of(outcome.body):
        body += piece
    return body


async def test_every_name_is_written_read_and_listed(subject: Subject) -> None:
    reads, listing = OriginReads(subject.client), BucketListing(subject.client)
    versions = {key: await subject.put(key, key.encode()) for key in KEYS}
    for key, version in versions.items():
        name = ObjectName(subject.bucket, key)
        assert await body_of(await reads.open_read(name, OriginRead(pin=version))) == key.encode()
    listed = [(each.key, each.size, each.etag) async for each in listing.list_objects(subject.bucket, "")]
    await listing.close()
    assert sorted(listed) == sorted((key, len(key.encode()), version.etag) for key, version in versions.items())


async def test_ranges_versions_and_refusals(subject: Subject) -> None:
    reads, name = OriginReads(subject.client), ObjectName(subject.bucket, "k")
    old = await subject.put("k", BYTES)
    outcome = await reads.open_read(name, OriginRead(span=Span(1000, 2000), pin=old))
    assert await body_of(outcome) == BYTES[1000:2000]
    outcome = await reads.open_read(name, OriginRead(span=Span(10_000, 99_999), pin=old))
    assert isinstance(outcome, ObjectOpened)
    assert (outcome.span, outcome.facts.size) == (Span(10_000, 10_240), 10_240)
    assert await body_of(outcome) == BYTES[10_000:]
    past = await reads.open_read(name, OriginRead(span=Span(10_240, 10_241)))
    assert isinstance(past, ErrorResponse)
    assert past.status == 416
    unchanged = await reads.open_read(name, OriginRead("HEAD", if_none_match=old))
    assert isinstance(unchanged, Revalidated)
    assert unchanged.etag == old.etag
    new = await subject.put("k", b"new")
    with pytest.raises(VersionChanged):
        await reads.open_read(name, OriginRead(span=Span(0, 3), pin=old))
    assert await body_of(await reads.open_read(name, OriginRead(if_none_match=old))) == b"new"
    assert await body_of(await reads.open_read(name, OriginRead(span=Span(0, 3), pin=new))) == b"new"
    missing = await reads.open_read(ObjectName(subject.bucket, "nothing"), OriginRead())
    assert isinstance(missing, ErrorResponse)
    assert missing.status == 404
    assert b"NoSuchKey" in missing.body


async def test_an_empty_object(subject: Subject) -> None:
    reads, name = OriginReads(subject.client), ObjectName(subject.bucket, "empty")
    version = await subject.put("empty", b"")
    for span in (None, Span(0, 1 << 20)):
        outcome = await reads.open_read(name, OriginRead(span=span, pin=version))
        assert isinstance(outcome, ObjectOpened)
        assert (outcome.facts.size, outcome.span, await body_of(outcome)) == (0, Span(0, 0), b"")


async def test_a_wrong_secret_is_refused(subject: Subject) -> None:
    reads, name = OriginReads(subject.client), ObjectName(subject.bucket, "k")
    key = await subject.client.credentials.current()
    assert key is not None
    with pytest.raises(OriginCredentialFault, match="SignatureDoesNotMatch"):
        await reads.open_read(name, OriginRead(), credential=SecretKey(key.access_key, "wrong"))


async def test_the_own_credential_is_checked(subject: Subject) -> None:
    check = subject.client.credential_check
    assert await check.check() == "accepted"
    key = await subject.client.credentials.current()
    assert key is not None
    subject.client.use_credentials(StaticCredentials(SecretKey(key.access_key, "wrong")))
    assert await check.check() == "refused"
    reads, name = OriginReads(subject.client), ObjectName(subject.bucket, "k")
    methods: tuple[Literal["GET", "HEAD"], ...] = ("GET", "HEAD")
    for method in methods:  # a HEAD doesn't say why it is refused: the check does
        with pytest.raises(OriginCredentialFault, match=r"the origin refuses Forebay's key .*: SignatureDoesNotMatch"):
            await reads.open_read(name, OriginRead(method))
    subject.client.use_credentials(StaticCredentials(key))
    assert await check.check_if_due() == "accepted"
