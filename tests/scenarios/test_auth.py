"""Authentication and authorisation over a socket: the refusal is the same for a cold, a cached and a missing object,
and causes no origin request."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from forebay.core.errors import SettingsErrors
from harness.clients import RawClient, RawRequest, path_of
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code
from harness.raw_connection import RawAnswer
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

SECRET_BYTES = b"the bytes of the object"
CLOSED = "/bucket/closed/key"
OPEN = "/bucket/open/key"


def fill(origin: FakeOrigin) -> None:
    for key in ("closed/key", "open/key"):
        origin.store.put("bucket", key, SECRET_BYTES, x_amz_meta_colour="octarine")


async def warm(rig: Rig) -> None:
    for target in (CLOSED, OPEN):
        await rig.client().request("GET", target)


def assert_leaks_nothing(answer: RawAnswer, origin: FakeOrigin, asked: int) -> None:
    told = answer.body + b"".join(f"{name}:{value}".encode() for name, value in answer.pairs)
    assert SECRET_BYTES not in told
    assert b"octarine" not in told
    assert origin.store.get("bucket", "closed/key").etag.strip('"').encode() not in told
    assert not {"x-forebay-cache", "etag", "last-modified", "content-range"} & {
        name.lower() for name, _ in answer.pairs
    }
    assert sum(seen.key is not None or seen.bucket is not None for seen in origin.log.requests) == asked


Refused = Callable[[Rig], RawRequest]


def by(secret: Secret, target: str = CLOSED, method: str = "GET", skew: float = 0, **kind: Any) -> Refused:
    return lambda rig: RawClient(rig.endpoint, secret, clock=lambda: time.time() + skew).sign(method, target, **kind)


def presigned(secret: Secret, *, skew: float = 0, expires: int = 3600, method: str = "GET") -> Refused:
    def make(rig: Rig) -> RawRequest:
        client = RawClient(rig.endpoint, secret, clock=lambda: time.time() + skew)
        host = rig.endpoint.removeprefix("http://")
        return RawRequest(method, client.presign(method, CLOSED, expires), (("Host", host),))

    return make


def changed(make: Refused, change: Callable[[RawRequest], RawRequest]) -> Refused:
    return lambda rig: change(make(rig))


def add(*pair: str) -> Callable[[RawRequest], RawRequest]:
    name, value = pair
    return lambda request: replace(request, pairs=(*request.pairs, (name, value)))


def spoil(request: RawRequest) -> RawRequest:
    """Another last digit of the signature, wherever it stands."""
    flip = {"0": "1"}

    def turned(text: str) -> str:
        return re.sub(r"(Signature=[0-9a-f]{63})(.)", lambda found: found[1] + flip.get(found[2], "0"), text)

    pairs = tuple((name, turned(value)) for name, value in request.pairs)
    return replace(request, target=turned(request.target), pairs=pairs)


def anonymous(rig: Rig) -> RawRequest:
    return RawRequest("GET", CLOSED, (("Host", rig.endpoint.removeprefix("http://")),))


NOBODY, LIAR = Secret("nobody", "x"), Secret("trainer", "a wrong secret")
REFUSALS: dict[str, tuple[Refused, int, str]] = {
    "no signature": (anonymous, 403, "AccessDenied"),
    "unknown key": (by(NOBODY), 403, "InvalidAccessKeyId"),
    "wrong secret": (by(LIAR), 403, "SignatureDoesNotMatch"),
    "tampered signature": (changed(by(TRAINER), spoil), 403, "SignatureDoesNotMatch"),
    "another object": (changed(by(TRAINER, OPEN), lambda r: replace(r, target=CLOSED)), 403, "SignatureDoesNotMatch"),
    "another method": (
        changed(by(TRAINER, method="HEAD"), lambda r: replace(r, method="GET")),
        403,
        "SignatureDoesNotMatch",
    ),
    "another query": (changed(by(TRAINER), lambda r: replace(r, target=f"{CLOSED}?acl")), 403, "SignatureDoesNotMatch"),
    "a header that was not signed": (changed(by(TRAINER), add("x-amz-acl", "public-read")), 403, "AccessDenied"),
    "signed too early": (by(TRAINER, skew=-1000), 403, "RequestTimeTooSkewed"),
    "signed too late": (by(TRAINER, skew=1000), 403, "RequestTimeTooSkewed"),
    "a token where none is due": (by(replace(TRAINER, token="token")), 400, "InvalidToken"),
    "presigned, unknown key": (presigned(NOBODY), 403, "InvalidAccessKeyId"),
    "presigned, wrong secret": (presigned(LIAR), 403, "SignatureDoesNotMatch"),
    "presigned, tampered": (changed(presigned(TRAINER), spoil), 403, "SignatureDoesNotMatch"),
    "presigned, expired": (presigned(TRAINER, skew=-100, expires=60), 403, "AccessDenied"),
    "presigned, not valid yet": (presigned(TRAINER, skew=1000), 403, "AccessDenied"),
    "presigned for too long": (presigned(TRAINER, expires=604_801), 400, "AuthorizationQueryParametersError"),
    "presigned for another method": (
        changed(presigned(TRAINER, method="PUT"), lambda r: replace(r, method="GET")),
        403,
        "SignatureDoesNotMatch",
    ),
    "two ways at once": (
        changed(presigned(TRAINER), add("Authorization", "AWS4-HMAC-SHA256 x")),
        400,
        "InvalidArgument",
    ),
    "basic": (changed(anonymous, add("Authorization", "Basic eDp5")), 400, "InvalidArgument"),
    "version 2": (changed(anonymous, add("Authorization", "AWS trainer:c2ln")), 403, "AccessDenied"),
    "reader outside its grants": (by(READER), 403, "AccessDenied"),
    "reader, presigned": (presigned(READER), 403, "AccessDenied"),
    "reader, what is not there": (by(READER, "/bucket/closed/nothing"), 403, "AccessDenied"),
    "reader, another bucket": (by(READER, "/no-such-bucket/x"), 403, "AccessDenied"),
    "reader, HEAD": (by(READER, method="HEAD"), 403, ""),
    "reader, a range": (by(READER, headers=(("Range", "bytes=0-3"),)), 403, "AccessDenied"),
    "reader, tags": (by(READER, f"{CLOSED}?tagging"), 403, "AccessDenied"),
    "reader, writes": (by(READER, OPEN, "PUT", body=b"x"), 403, "AccessDenied"),
    "reader, deletes": (by(READER, OPEN, "DELETE"), 403, "AccessDenied"),
    "reader, lists everything": (by(READER, "/bucket?list-type=2"), 403, "AccessDenied"),
    "reader, lists what is closed": (by(READER, "/bucket?list-type=2&prefix=closed%2F"), 403, "AccessDenied"),
    "reader, lists more than is open": (by(READER, "/bucket?list-type=2&prefix=open"), 403, "AccessDenied"),
    "reader, two prefixes": (by(READER, "/bucket?prefix=open%2F&prefix=closed%2F"), 403, "AccessDenied"),
    "reader, versions": (by(READER, "/bucket?versions"), 403, "AccessDenied"),
    "reader, buckets": (by(READER, "/"), 403, "AccessDenied"),
    "reader, configuration": (by(READER, "/bucket?policy"), 403, "AccessDenied"),
    "reader, deletes the bucket": (by(READER, "/bucket", "DELETE"), 403, "AccessDenied"),
}
# What is denied for more than one reason may be denied for either.
EITHER = {"reader, two prefixes": {"AccessDenied", "InvalidArgument"}}


@pytest.mark.parametrize("cached", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("name", REFUSALS)
async def test_the_refusal_is_the_same_cold_and_warm_and_tells_nothing(tmp_path: Path, name: str, cached: bool) -> None:
    make, status, code = REFUSALS[name]
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        fill(origin)
        if cached:
            await warm(rig)
        asked = sum(seen.bucket is not None for seen in origin.log.requests)
        answer = await rig.client().send(make(rig))
        if name in EITHER:
            assert error_code(answer) in EITHER[name]
        else:
            assert (answer.status, error_code(answer) if code else "") == (status, code)
        assert_leaks_nothing(answer, origin, asked)
        assert (await rig.client().request("GET", CLOSED)).body == SECRET_BYTES


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (b"<Delete><Object><Key>open/key</Key></Object></Delete>", (403, "AccessDenied")),
        (b"<Delete/>", (400, "MalformedXML")),
    ],
)
async def test_a_batch_delete_is_refused_once_its_keys_are_known(
    tmp_path: Path, document: bytes, expected: tuple[int, str]
) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        fill(origin)
        answer = await rig.client().send(by(READER, "/bucket?delete", "POST", body=document)(rig))
        assert (answer.status, error_code(answer), answer.headers["x-forebay-cache"]) == (*expected, "bypass")
        assert not any(seen.bucket is not None for seen in origin.log.requests)


@pytest.mark.parametrize("condition", ["If-None-Match", "If-Match", "If-Modified-Since"])
async def test_a_condition_tells_a_stranger_nothing(tmp_path: Path, condition: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        fill(origin)
        await warm(rig)
        etag = origin.store.get("bucket", "closed/key").etag
        value = etag if condition.endswith("Match") else "Fri, 01 Jan 2100 00:00:00 GMT"
        for method in ("GET", "HEAD"):
            answer = await rig.client(READER).request(method, CLOSED, ((condition, value),))
            assert (answer.status, "ETag" in answer.headers) == (403, False)


async def test_reader_is_limited_to_its_grants(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        fill(origin)
        client = rig.client(READER)
        assert (await client.request("GET", OPEN)).body == SECRET_BYTES
        assert (await client.unsigned("GET", client.presign("GET", OPEN))).body == SECRET_BYTES
        assert (await client.request("HEAD", "/bucket")).status == 200
        listing = await client.request("GET", "/bucket?list-type=2&prefix=open%2F")
        assert (listing.status, b"open/key" in listing.body, b"closed" in listing.body) == (200, True, False)
        # Dots are letters of a key: this names another object, which is not there.
        assert error_code(await client.request("GET", "/bucket/open/../closed/key")) == "NoSuchKey"


MINE, FOREIGN = b"<Object><Key>mine/a</Key></Object>", b"<Object><Key>closed/key</Key></Object>"
WRITER = """
[[auth.keys]]
id = "writer"
secret = "writer-secret"
grants = [{ path = "bucket/mine/**", allow = ["read", "write", "delete"] }]
"""


@pytest.mark.parametrize(
    ("method", "target", "headers", "body"),
    [
        ("PUT", "/bucket/mine/copy", (("x-amz-copy-source", "bucket/closed/key"),), b""),
        ("PUT", "/bucket/mine/copy", (("x-amz-copy-source", "/bucket/mine/..%2Fclosed%2Fkey"),), b""),
        ("PUT", "/bucket/mine/copy", (("x-amz-copy-source", "bucket%2Fclosed%2Fkey"),), b""),
        ("PUT", "/bucket/mine/copy?partNumber=1&uploadId=u", (("x-amz-copy-source", "bucket/closed/key"),), b""),
        ("POST", "/bucket?delete", (), b"<Delete>" + MINE + FOREIGN + b"</Delete>"),
        ("POST", "/bucket?delete", (), b"<Delete>" + FOREIGN + b"</Delete>"),
        ("PUT", "/bucket/minefield", (), b"x"),
        ("PUT", "/bucket/mine/%2e%2e/../x?acl&tagging", (), b"x"),
    ],
)  # fmt: skip
async def test_a_writer_touches_nothing_but_its_own(
    tmp_path: Path, method: str, target: str, headers: tuple[tuple[str, str], ...], body: bytes
) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=WRITER) as rig:
        fill(origin)
        answer = await rig.client(Secret("writer", "writer-secret")).request(method, target, headers, body)
        assert answer.status in {400, 403, 404, 405}
        assert origin.store.get("bucket", "closed/key").size == len(SECRET_BYTES)
        assert [key for key in origin.store.bucket("bucket").versions if key.startswith("mine")] == []
        if answer.status != 404:  # the origin was not even asked
            assert not [seen for seen in origin.log.requests if seen.bucket is not None]


async def test_presigned_put_writes_the_named_object(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        fill(origin)
        await warm(rig)
        client = rig.client()
        target = client.presign("PUT", CLOSED)
        assert (await client.unsigned("PUT", target, (), b"new")).status == 200
        assert (await client.request("GET", CLOSED)).body == b"new"
        moved = target.replace("closed", "open")
        assert error_code(await client.unsigned("PUT", moved, (), b"newer")) == "SignatureDoesNotMatch"
        header = (("x-amz-acl", "public-read"),)
        assert error_code(await client.unsigned("PUT", target, header, b"newer")) == "AccessDenied"
        assert (await client.request("GET", OPEN)).body == SECRET_BYTES


@pytest.mark.parametrize(
    ("secret", "code"),
    [(NOBODY, "InvalidAccessKeyId"), (LIAR, "SignatureDoesNotMatch"), (READER, "AccessDenied")],
)
async def test_boto3_understands_each_refusal(tmp_path: Path, secret: Secret, code: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        fill(origin)

        def ask() -> ClientError:
            client = rig.boto3(secret)
            try:
                with pytest.raises(ClientError) as refused:
                    client.get_object(Bucket="bucket", Key="closed/key")
                with pytest.raises(ClientError) as head:
                    client.head_object(Bucket="bucket", Key="closed/key")
                assert head.value.response["Error"]["Code"] == "403"
            finally:
                client.close()
            return refused.value

        error = (await asyncio.to_thread(ask)).response
        assert (error["Error"]["Code"], error["ResponseMetadata"]["HTTPStatusCode"]) == (code, 403)
        assert error["ResponseMetadata"]["RequestId"]


async def test_temporary_keys_need_their_token(tmp_path: Path) -> None:
    rest = """
[[auth.keys]]
id = "temporary"
secret = "temporary-secret"
session_token = "the-token"
grants = [{ path = "**", allow = ["read"] }]
"""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        fill(origin)
        await warm(rig)
        given = {"the-token": (200, ""), "another": (400, "InvalidToken"), None: (403, "InvalidAccessKeyId")}
        for token, expected in given.items():
            client = rig.client(Secret("temporary", "temporary-secret", token=token))
            answer = await client.request("GET", CLOSED)
            assert (answer.status, error_code(answer)) == expected
            answer = await client.unsigned("GET", client.presign("GET", CLOSED))
            assert (answer.status, error_code(answer)) == expected


async def test_open_mode_asks_nobody_and_is_for_the_loopback_only(tmp_path: Path) -> None:
    async with FakeOrigin() as origin:
        fill(origin)
        rig = Rig(origin.endpoint, origin.secret, tmp_path)
        keys = rig.configuration[rig.configuration.index("[[auth.keys]]") :]
        rig.configuration = rig.configuration.replace(keys, '[auth]\nmode = "open"\n')
        async with rig:
            answer = await rig.client().unsigned("GET", path_of("bucket", "closed/key"))
            assert answer.body == SECRET_BYTES
            assert (await rig.client(NOBODY).request("PUT", OPEN, (), b"new")).status == 200
        rig.configuration = rig.configuration.replace('listen = "127.0.0.1:0"', 'listen = "0.0.0.0:0"')
        with pytest.raises(SettingsErrors, match="loopback"):
            await rig.start()
