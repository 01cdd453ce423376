"""The stand-in for OSS says no where OSS does. What it says yes to is seen by everything that is tried against it."""

import base64
import hashlib
import time
from collections.abc import AsyncIterator
from email.utils import formatdate
from typing import Any
from urllib.parse import quote

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from harness.conformance import code, parsed
from harness.oss.authority import signature
from harness.oss.oss_request import parse
from harness.oss_origin import DOMAIN, OSS_SECRET, OssOrigin
from harness.raw_connection import RawAnswer, RawConnection, head_bytes
from harness.reference_sigv4 import timestamp_of

BODY = bytes(range(256)) * 4
MD5 = hashlib.md5(BODY, usedforsecurity=False).hexdigest().upper()


@pytest.fixture
async def origin() -> AsyncIterator[OssOrigin]:
    async with OssOrigin() as origin:
        origin.store.put("bucket", "key", BODY)
        yield origin


async def ask(
    origin: OssOrigin,
    method: str,
    target: str,
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
    *,
    host: str = f"bucket.{DOMAIN}",
    spoil: str = "",
    without: str = "",
    skew: float = 0,
) -> RawAnswer:
    """A request signed as the vendor's SDKs do. `spoil` is added to the signature, `without` a header left out."""
    timestamp = timestamp_of(time.time() + skew)
    pairs = [
        ("Host", f"{host}:{origin.port}"),
        ("Date", formatdate(usegmt=True)),
        ("x-oss-date", timestamp),
        ("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
        *headers,
    ]
    if body or method in {"PUT", "POST"}:
        pairs.append(("Content-Length", str(len(body))))
    pairs = [pair for pair in pairs if pair[0] != without]
    asked = parse(method, target, CIMultiDictProxy(CIMultiDict(pairs)), DOMAIN)
    proof = signature(OSS_SECRET, timestamp, asked, []) + spoil
    scope = f"{timestamp[:8]}/{OSS_SECRET.region}/oss/aliyun_v4_request"
    if without != "Authorization":
        credential = f"OSS4-HMAC-SHA256 Credential={OSS_SECRET.access}/{scope}, Signature={proof}"
        pairs.append(("Authorization", credential))
    async with await RawConnection.open("127.0.0.1", origin.port) as connection:
        await connection.send(head_bytes(method, target, pairs) + body)
        return await connection.answer(method)


async def test_an_object_as_oss_tells_it(origin: OssOrigin) -> None:
    answer = await ask(origin, "GET", "/key")
    assert (answer.status, answer.body) == (200, BODY)
    assert answer.headers["ETag"] == f'"{MD5}"'
    assert (answer.headers["x-oss-object-type"], answer.headers["x-oss-hash-crc64ecma"].isdecimal()) == ("Normal", True)
    assert not any(name.lower().startswith("x-amz") for name, _ in answer.pairs)


@pytest.mark.parametrize(
    ("target", "given", "expected"),
    [
        ("/key", {"host": DOMAIN}, "SecondLevelDomainForbidden"),
        ("/bucket/key", {"host": DOMAIN}, "SecondLevelDomainForbidden"),
        ("/key", {"headers": (("x-amz-meta-a", "b"),)}, "InvalidArgument"),
        ("/key", {"headers": (("Content-Encoding", "aws-chunked"),)}, "InvalidArgument"),
        ("/key", {"headers": (("x-oss-unheard-of", "b"),)}, "InvalidArgument"),
        ("/key", {"without": "x-oss-date"}, "AccessDenied"),
        ("/key", {"without": "Authorization"}, "AccessDenied"),
        ("/key", {"without": "x-oss-content-sha256"}, "InvalidArgument"),
        ("/key", {"spoil": "0"}, "SignatureDoesNotMatch"),
        ("/key", {"skew": -1000}, "RequestTimeTooSkewed"),
        ("/key", {"headers": (("x-oss-security-token", "t"),)}, "InvalidSecurityToken"),
        ("/key?partNumber=1", {}, "InvalidArgument"),
        ("/%2Fkey", {}, "InvalidObjectName"),
        ("/?max-keys=0", {}, "InvalidArgument"),
    ],
)
async def test_refusals(origin: OssOrigin, target: str, given: dict[str, Any], expected: str) -> None:
    answer = await ask(origin, "GET", target, **given)
    assert (answer.status >= 400, code(answer)) == (True, expected)
    assert answer.headers["x-oss-ec"]


@pytest.mark.parametrize("given", ["bytes=0-9", "bytes=-9"])
async def test_range_inside_the_object(origin: OssOrigin, given: str) -> None:
    assert (await ask(origin, "GET", "/key", (("Range", given),))).status == 206


@pytest.mark.parametrize("given", ["bytes=0-1024", "bytes=2000-", "bytes=-2000"])
async def test_a_range_that_does_not(origin: OssOrigin, given: str) -> None:
    careless = await ask(origin, "GET", "/key", (("Range", given),))
    assert (careless.status, careless.body) == (200, BODY)
    strict = await ask(origin, "GET", "/key", (("Range", given), ("x-oss-range-behavior", "standard")))
    assert strict.status == (416 if given == "bytes=2000-" else 206)


async def test_etags_are_compared_as_they_are(origin: OssOrigin) -> None:
    assert (await ask(origin, "GET", "/key", (("If-Match", f'"{MD5}"'),))).status == 200
    assert (await ask(origin, "GET", "/key", (("If-Match", f'"{MD5.lower()}"'),))).status == 412


async def test_a_head_s_error_is_in_a_header(origin: OssOrigin) -> None:
    answer = await ask(origin, "HEAD", "/absent")
    assert (answer.status, answer.body) == (404, b"")
    assert b"<Code>NoSuchKey</Code>" in base64.b64decode(answer.headers["x-oss-err"])


async def test_a_batch_delete_needs_its_digest(origin: OssOrigin) -> None:
    body = b"<Delete><Quiet>true</Quiet><Object><Key>key</Key></Object></Delete>"
    assert code(await ask(origin, "POST", "/?delete", (), body)) == "MissingArgument"
    digest = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
    done = await ask(origin, "POST", "/?delete", (("Content-MD5", digest),), body)
    assert (done.status, done.body) == (200, b"")
    assert "key" not in origin.store.bucket("bucket").versions


async def test_listings(origin: OssOrigin) -> None:
    origin.store.put("bucket", "a b/c", BODY)
    answer = await ask(origin, "GET", "/?encoding-type=url&max-keys=1")
    assert b"xmlns" not in answer.body
    tree = parsed(answer)
    assert [tree.findtext(name) for name in ("Contents/Key", "NextMarker", "Contents/Type")] == [
        quote("a b/c", safe=""),
        quote("a b/c", safe=""),
        "Normal",
    ]
    assert (tree.findtext("Contents/LastModified") or "").endswith(".000Z")


async def test_forbidden_overwrite(origin: OssOrigin) -> None:
    answer = await ask(origin, "PUT", "/key", (("x-oss-forbid-overwrite", "true"),), b"other")
    assert (answer.status, code(answer)) == (409, "FileAlreadyExists")
