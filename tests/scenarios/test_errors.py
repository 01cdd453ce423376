"""Failures become S3 errors, and no error contains a secret."""

import asyncio
import json
import logging
from pathlib import Path

import aiohttp
import pytest

from harness.aws_chunked import Framing
from harness.clients import RawRequest
from harness.fake import actions
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import error_code
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig

TARGET = "/bucket/key"


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
MALFORMED = {
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no version": b"GET /bucket/key\r\nHost: x\r\n\r\n",
    "another version": b"GET /bucket/key HTTP/3.7\r\nHost: x\r\n\r\n",
    "a blank in the target": b"GET /bucket/a key HTTP/1.1\r\nHost: x\r\n\r\n",
    "a blank before a colon": b"GET /bucket/key HTTP/1.1\r\nHost : x\r\n\r\n",
    "a folded header": b"GET /bucket/key HTTP/1.1\r\nHost: x\r\nx-one: a\r\n b\r\n\r\n",
    "a NUL in a header": b"GET /bucket/key HTTP/1.1\r\nHost: x\r\nx-one: a\x00b\r\n\r\n",
    "a bare LF": b"GET /bucket/key HTTP/1.1\nHost: x\n\n",
    "a bare CR": b"GET /bucket/key HTTP/1.1\r\nHost: x\r\nx-one: a\rx-two: b\r\n\r\n",
    "two Hosts": b"GET /bucket/key HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "no Host": b"GET /bucket/key HTTP/1.1\r\nx-one: a\r\n\r\n",
    "length and chunks": (
        b"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + SMUGGLED
    ),
    "two lengths": b"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 37\r\n\r\n" + SMUGGLED,
    "a length that is none": b"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nabcd",
    "a negative length": b"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "a coding that nobody knows": b"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: x\r\n\r\n",
    "chunked not last": b"PUT /bucket/key HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
}


async def test_an_error_has_the_ids_of_its_headers(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        answer = await rig.client(Secret(TRAINER.access, "wrong")).request("GET", TARGET)
    assert error_code(answer) == "SignatureDoesNotMatch"
    for header, element in (("x-amz-request-id", "RequestId"), ("x-amz-id-2", "HostId")):
        assert f"<{element}>{answer.headers[header]}</{element}>".encode() in answer.body


@pytest.mark.parametrize("name", MALFORMED)
async def test_malformed_request_ends_the_connection(tmp_path: Path, name: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        async with await rig.client().open() as connection, asyncio.timeout(60):
            await connection.send(MALFORMED[name])
            answer = await connection.answer()
            assert 400 <= answer.status < 500
            assert error_code(answer) in {"BadRequest", "AccessDenied", "InvalidURI", "MissingContentLength"}
            assert answer.headers["Content-Type"] == "application/xml"
            if error_code(answer) == "BadRequest":
                assert await connection.ended()
        assert not [seen for seen in origin.log.requests if seen.bucket is not None]


@pytest.mark.parametrize("method", ["GETPUT", "get", "Delete", "UPDATE"])
async def test_a_method_that_nobody_knows_is_not_allowed(tmp_path: Path, method: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        async with await rig.client().open() as connection, asyncio.timeout(60):
            await connection.send(f"{method} /bucket/key HTTP/1.1\r\nHost: x\r\n\r\n".encode() + SMUGGLED)
            answer = await connection.answer()
            assert (answer.status, error_code(answer)) == (405, "MethodNotAllowed")
            assert await connection.ended()
        assert not [seen for seen in origin.log.requests if seen.bucket is not None]


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("/bucket/" + "k" * 1025, "KeyTooLongError"),
        ("/bucket/" + "%C3%A9" * 513, "KeyTooLongError"),
        ("/bucket/%zz", "InvalidURI"),
        ("/bucket/%", "InvalidURI"),
        ("/bucket/%ff", "InvalidURI"),
        ("/bucket/a%00b", "InvalidURI"),
        ("/bucket/key?a=%zz", "InvalidURI"),
        ("/bucket/key?acl&tagging", "MethodNotAllowed"),
        ("/bucket/key?uploads", "MethodNotAllowed"),
    ],
)
async def test_a_target_that_names_nothing_is_refused(tmp_path: Path, target: str, code: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        answer = await rig.client().request("GET", target)
        assert error_code(answer) == code
        assert answer.status in {400, 405}
        assert not [seen for seen in origin.log.requests if seen.bucket is not None]


@pytest.mark.parametrize("target", ["/bucket/" + "k" * 1024, "/bucket/" + "%C3%A9" * 512])
async def test_the_longest_key_is_a_key(tmp_path: Path, target: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        assert (await rig.client().request("PUT", target, (), b"x")).status == 200
        assert (await rig.client().request("GET", target)).body == b"x"


async def test_the_log_names_the_grant_that_a_refused_request_lacks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        refused = await rig.client(READER).request("GET", TARGET)
        unsigned = await rig.client().unsigned("GET", TARGET)
    assert (error_code(refused), error_code(unsigned)) == ("AccessDenied", "AccessDenied")
    assert b"grant" not in refused.body
    number = refused.headers["x-amz-request-id"]
    denied = "AccessDenied: GetObject: key reader has no grant with read for 'bucket/key'"
    assert f"{number}: {denied}" in caplog.text
    assert f"{unsigned.headers['x-amz-request-id']}: AccessDenied: the request is not signed" in caplog.text


async def test_unreachable_origin_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with Rig("http://127.0.0.1:1", TRAINER, tmp_path) as rig:
        for method, body in (("GET", b""), ("PUT", b"x"), ("DELETE", b"")):
            answer = await rig.client().request(method, TARGET, (), body)
            assert (answer.status, error_code(answer)) == (503, "ServiceUnavailable")
            assert b"127.0.0.1" not in answer.body
        await rig.parts.origins.of(None).probe()
        async with aiohttp.ClientSession() as session, session.get(f"{rig.admin}/readyz") as ready:
            assert ready.status == 503
            assert (await ready.json())["ready"] is False
    assert "the origin could not answer GetObject" in caplog.text
    assert "the origin could not answer PutObject" in caplog.text
    assert "Traceback" not in caplog.text


async def test_client_errors_are_not_internal_errors(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        await client.request("PUT", TARGET, (), b"x", payload="0" * 64)
        await client.request("POST", "/bucket?delete", (), b"<Delete>")
        await client.request("PUT", TARGET, (), b"x" * 100, framing=Framing(spoil=lambda _at, _right: "0" * 64))
        gate = Gate()
        held = origin.faults.add(actions.HoldHead(gate), method="PUT")
        connection = await client.open()
        await connection.send(client.sign("PUT", TARGET, (), b"x").wire)
        await gate.reached()
        connection.reset()
        gate.open()
        await origin.log.wait_idle()
        await rig.wait_idle()
        origin.faults.remove(held)
        origin.faults.add(actions.LoseAnswer())
        await client.request("PUT", TARGET, (), b"x")
        await rig.wait_idle()
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_errors_disclose_no_secret(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "open/key", b"x")
        told = []
        token = "a-canary-token"
        signed = rig.client().sign("GET", "/bucket/open/key")
        presigned = rig.client().presign("GET", "/bucket/open/key")
        signatures = [dict(signed.pairs)["Authorization"][-64:], presigned[-64:]]
        requests = [
            signed,
            RawRequest("GET", presigned, (("Host", rig.endpoint.removeprefix("http://")),)),
            RawRequest("GET", f"{presigned}0", (("Host", rig.endpoint.removeprefix("http://")),)),
            rig.client(Secret("trainer", "a-wrong-canary")).sign("GET", TARGET),
            rig.client(Secret("trainer", "trainer-secret", token=token)).sign("GET", TARGET),
            rig.client(READER).sign("PUT", TARGET, (), b"x"),
            rig.client().sign("GET", "/bucket/open/nothing"),
            RawRequest("GET", TARGET, (("Host", "x"), ("Authorization", "Bearer a-canary-bearer"))),
            RawRequest("GET", TARGET, (("Host", "x"), ("Authorization", "Basic YS1jYW5hcnktYmFzaWM="))),
        ]
        for request in requests:
            answer = await rig.client().send(request)
            told.append(repr(answer))
        origin.faults.add(actions.Garbage())
        told.append(repr(await rig.client().request("PUT", TARGET, (), b"x")))
        async with aiohttp.ClientSession() as session:
            for path in ("/v1/config", "/metrics", "/v1/stats", "/v1/jobs", "/readyz"):
                async with session.get(f"{rig.admin}{path}") as page:
                    told.append(await page.text())
    lines = rig.access_lines()
    assert len(lines) == len(requests) + 1
    assert {json.loads(line)["status"] for line in lines} >= {200, 403, 400}
    told += [*lines, caplog.text]
    canaries = ["trainer-secret", "reader-secret", origin.secret.secret, "a-wrong-canary", token, "a-canary-bearer",
                "YS1jYW5hcnktYmFzaWM=", *signatures]  # fmt: skip
    for canary in canaries:
        assert [text for text in told if canary in text] == [], canary
