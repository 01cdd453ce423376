"""Listings by botocore, against a scripted origin."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl

import pytest

from forebay.core.errors import BucketMissing, OriginBroken, OriginOverloaded, OriginUnreachable
from forebay.core.events import Observe, OriginFailed, unobserved
from forebay.origin.bucket_listing import BucketListing, ListedObject
from forebay.origin.credentials import ANONYMOUS, Credentials, StaticCredentials
from forebay.origin.dialects import DIALECTS
from forebay.origin.origin_client import OriginClient
from forebay.origin.origin_limits import OriginLimits
from forebay.origin.origin_server import OriginServer
from forebay.protocol.signatures.signing_key import SecretKey
from harness.scripted_origin import Script, ScriptedConnection, scripted_origin
from harness.ssd_rig import RecordedEvents

KEYS = StaticCredentials(SecretKey("AKID", "hush"))


@asynccontextmanager
async def listing_of(
    url: str, credentials: Credentials = KEYS, observe: Observe = unobserved
) -> AsyncIterator[BucketListing]:
    limits = OriginLimits(attempts=1, connect_timeout=30, answer_timeout=30)
    async with OriginClient(
        OriginServer(url, "eu-west-1", DIALECTS["minio"]), credentials, limits=limits, observe=observe
    ) as client:
        listing = BucketListing(client)
        try:
            yield listing
        finally:
            await listing.close()


def document(contents: str, token: str = "") -> bytes:
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>bucket</Name><EncodingType>url</EncodingType><IsTruncated>{'true' if token else 'false'}</IsTruncated>"
        f"{more}{contents}</ListBucketResult>"
    ).encode()


NEW_YEAR = 1_767_225_600.0


def listed(key: str, size: int) -> str:
    return (
        f"<Contents><Key>{key}</Key><Size>{size}</Size><ETag>&quot;e{size}&quot;</ETag>"
        "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
    )


def answers(*responses: tuple[int, bytes]) -> Script:
    async def script(line: ScriptedConnection) -> None:
        for status, body in responses:
            await line.read_request()
            await line.respond(status, "Content-Type: application/xml\n", body)
        await line.wait_closed()

    return script


async def test_all_pages_with_their_keys_decoded() -> None:
    script = answers(
        (200, document(listed("p/a%2Bb+c%0A", 1) + listed("p/gr%C3%BCn", 2), "next=")),
        (200, document(listed("p/z", 3))),
    )
    async with scripted_origin(script) as origin, listing_of(origin.url) as listing:
        found = [each async for each in listing.list_objects("bucket", "p/")]
    assert found == [
        ListedObject("p/a+b c\n", 1, '"e1"', NEW_YEAR),
        ListedObject("p/grün", 2, '"e2"', NEW_YEAR),
        ListedObject("p/z", 3, '"e3"', NEW_YEAR),
    ]
    queries = [dict(parse_qsl(heard.target.partition("?")[2])) for heard in origin.requests]
    assert [heard.target.partition("?")[0] for heard in origin.requests] == ["/bucket"] * 2
    assert queries[0] == {"list-type": "2", "prefix": "p/", "encoding-type": "url"}
    assert queries[1]["continuation-token"] == "next="
    assert "Credential=AKID/" in (origin.requests[0].header("authorization") or "")


async def test_an_empty_listing_without_credentials() -> None:
    async with scripted_origin(answers((200, document("")))) as origin, listing_of(origin.url, ANONYMOUS) as listing:
        assert [each async for each in listing.list_objects("bucket", "")] == []
    assert origin.requests[0].header("authorization") is None


async def test_a_refusal_has_its_code() -> None:
    error = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
    async with scripted_origin(answers((403, error))) as origin, listing_of(origin.url) as listing:
        with pytest.raises(OriginBroken, match="AccessDenied"):
            [each async for each in listing.list_objects("bucket", "")]


@pytest.mark.parametrize(("status", "code", "failures"), [(404, "NoSuchBucket", 0), (500, "InternalError", 1)])
async def test_a_missing_bucket_is_named_and_no_failure(status: int, code: str, failures: int) -> None:
    error = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
    observed = RecordedEvents()
    async with (
        scripted_origin(answers((status, error))) as origin,
        listing_of(origin.url, observe=observed) as listing,
    ):
        with pytest.raises(OriginBroken, match=f"the origin answered {code}") as refused:
            [each async for each in listing.list_objects("bucket", "")]
    assert isinstance(refused.value, BucketMissing) == (code == "NoSuchBucket")
    assert len(observed.of(OriginFailed)) == failures


@pytest.mark.parametrize(("status", "is_overloaded"), [(403, False), (429, True), (500, True), (503, True)])
async def test_a_refusal_that_may_pass_is_told_apart(status: int, is_overloaded: bool) -> None:
    error = b"<Error><Code>Refused</Code></Error>"
    async with scripted_origin(answers((status, error))) as origin, listing_of(origin.url) as listing:
        with pytest.raises(OriginBroken, match="the origin answered Refused") as refused:
            [each async for each in listing.list_objects("bucket", "")]
        assert isinstance(refused.value, OriginOverloaded) == is_overloaded


async def test_a_document_that_is_no_listing_is_broken() -> None:
    async with scripted_origin(answers((200, b"<html>hello"))) as origin, listing_of(origin.url) as listing:
        with pytest.raises(OriginBroken):
            [each async for each in listing.list_objects("bucket", "")]


async def test_an_unreachable_origin_raises() -> None:
    async with scripted_origin(answers()) as origin:
        url = origin.url
    async with listing_of(url) as listing:
        with pytest.raises(OriginUnreachable):
            [each async for each in listing.list_objects("bucket", "")]


async def test_closing_an_unused_listing() -> None:
    async with listing_of("http://127.0.0.1:1") as listing:
        await listing.close()
