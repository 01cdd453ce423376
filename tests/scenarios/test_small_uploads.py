"""A small PUT that has come whole passes aiohttp by, and is answered as by aiohttp, byte for byte."""

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from forebay.request.authentication import Keyring
from harness.clients import RawClient, RawRequest, path_of
from harness.fake.actions import HoldRequest
from harness.fake.gate import Gate
from harness.fake_origin import FakeOrigin
from harness.inspection import run_loop_until
from harness.raw_connection import RawAnswer
from harness.rig import READER, TRAINER, Rig
from harness.write_back_rig import WriteBackRig, at_origin
from security.oss_signers import ALL_SIGNERS
from security.signers import Form

BODY = bytes(range(256)) * 40
WRONG_MD5 = ("Content-MD5", "AAAAAAAAAAAAAAAAAAAAAA==")
CASES: dict[str, tuple[str, Sequence[tuple[str, str]], bytes]] = {
    "back": (path_of("ckpt", "a/object"), [("Content-Type", "text/plain"), ("x-amz-meta-colour", "red")], BODY),
    "through": (path_of("bucket", "open/a"), (), BODY),
    "empty": (path_of("ckpt", "a/empty"), (), b""),
    "keep-alive said": (path_of("ckpt", "a/object"), [("Connection", "keep-alive")], BODY),
    "checksum": (path_of("ckpt", "a/object"), [("x-amz-checksum-crc32", "5BOFaA==")], b"a checksum"),
    "wrong checksum": (path_of("ckpt", "a/object"), [("x-amz-checksum-crc32", "AAAAAA==")], BODY),
    "wrong MD5": (path_of("ckpt", "a/object"), [WRONG_MD5], BODY),
    "wrong MD5, through": (path_of("bucket", "open/a"), [WRONG_MD5], BODY),
    "condition": (path_of("bucket", "open/a"), [("If-None-Match", "*")], BODY),
    "part of nothing": (path_of("ckpt", "a/object") + "?partNumber=1&uploadId=none", (), BODY),
    "bucket that is not there": (path_of("nowhere", "a"), (), BODY),
    "copy": (path_of("ckpt", "a/copy"), [("x-amz-copy-source", "/ckpt/a/object")], b""),
    "plan": (path_of("ckpt", ".forebay/plans/next"), (), b"a/object\n"),
}

TAKEN = {"back", "through", "empty", "keep-alive said", "checksum", "copy", "plan"}


@pytest.mark.parametrize("case", CASES)
async def test_a_small_upload_is_answered_alike(tmp_path: Path, case: str) -> None:
    target, headers, body = CASES[case]
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        origin.store.put("ckpt", "a/object", b"before")
        origin.store.put("bucket", "open/a", b"before")
        for secret in (TRAINER, READER):
            client = rig.client(secret)
            request = client.sign("PUT", target, headers, body)
            await client.send(request)  # the next one finds what this one leaves
            past, parsed = await _past_aiohttp(rig, client, request), await _by_aiohttp(rig, client, request)
            assert (past.status, _document(past.body)) == (parsed.status, _document(parsed.body))
            assert _lasting(past.pairs) == _lasting(parsed.pairs)
            assert (past.status < 300) == (case == "plan" or (secret == TRAINER and case in TAKEN)), past.body


@pytest.mark.parametrize("form", ALL_SIGNERS, ids="-".join)
async def test_every_form_of_signature_is_verified(tmp_path: Path, form: Form) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, target = rig.client(), path_of("ckpt", "a/object")
        right = ALL_SIGNERS[form](TRAINER, "PUT", target, (), BODY, rig.now(), None)
        assert (await _past_aiohttp(rig, client, right)).status == 200
        wrong = ALL_SIGNERS[form](replace(TRAINER, secret="another"), "PUT", target, (), BODY, rig.now(), None)
        assert (await _past_aiohttp(rig, client, wrong)).status == 403


async def test_a_repeated_head_is_verified_for_its_own_body(tmp_path: Path) -> None:
    """Its template proves the signature; the body is compared with the hash of this request, not of the first one."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, target = rig.client(), path_of("ckpt", "a/object")
        bodies = [bytes([number]) * 1000 for number in range(4)]
        requests = [client.sign("PUT", target, [("Content-Type", "text/plain")], body) for body in bodies]
        for request in requests:
            assert (await _past_aiohttp(rig, client, request)).status == 200
        for request, body in zip(requests, [*bodies[1:], bodies[0]], strict=True):
            head = request.wire.removesuffix(request.body)
            async with await client.open() as connection:
                await connection.send(head + body)
                answer = await connection.answer("PUT")
            assert (answer.status, b"<Code>XAmzContentSHA256Mismatch<" in answer.body) == (400, True)
        assert (await client.request("GET", target)).body == bodies[-1]
        reader = rig.client(READER).sign("PUT", target, [("Content-Type", "text/plain")], bodies[0])
        assert (await _past_aiohttp(rig, client, reader)).status == 403


async def test_a_repeated_head_is_not_authenticated_in_full(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, heads = rig.client(), rig.worker.listener.server.services.uploads.heads
        for number in range(3):
            request = client.sign("PUT", path_of("ckpt", f"a/{number}"), (), BODY[number:])
            assert (await _past_aiohttp(rig, client, request)).status == 200
            assert heads.unmatched == 0, "the first one, which proves that others may follow, has made the template"


async def test_a_key_that_was_removed_proves_nothing(tmp_path: Path) -> None:
    """Templates are those of one policy."""
    async with FakeOrigin() as origin, WriteBackRig(origin, tmp_path) as rig:
        await rig.prove()
        client, target = rig.client(), path_of("ckpt", "a/object")
        for _ in range(2):
            assert (await _past_aiohttp(rig, client, client.sign("PUT", target, (), BODY))).status == 200
        gateway = rig.parts.requests.gateway
        gateway.policy = replace(gateway.policy, keyring=Keyring({}, {}))
        assert (await _past_aiohttp(rig, client, client.sign("PUT", target, (), BODY))).status == 403


async def test_the_limit_of_heads_holds(tmp_path: Path) -> None:
    rest = '[limits]\nheader_size = "4KiB"\n'
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        origin.store.create_bucket("bucket")
        client = rig.client()
        metadata = [(f"x-amz-meta-{number}", 500 * "m") for number in range(9)]
        answer = await client.send(client.sign("PUT", path_of("bucket", "key"), metadata, BODY))
        assert (answer.status, b"<Code>RequestHeaderSectionTooLarge<" in answer.body) == (400, True)


async def test_the_next_request_waits_for_the_answer(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client, target, gate = rig.client(), path_of("bucket", "key"), Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        async with await client.open() as connection:
            await connection.send(client.sign("PUT", target, (), BODY).wire)
            await gate.reached()
            await connection.send(client.sign("GET", target).wire)
            await connection.send(client.sign("HEAD", target).wire)
            gate.open()
            answers = [await connection.answer(method) for method in ("PUT", "GET", "HEAD")]
        assert [(each.status, each.body) for each in answers] == [(200, b""), (200, BODY), (200, b"")]
        assert rig.parts.storage.budget.in_use == 0


async def test_a_client_that_leaves_does_not_end_its_upload(tmp_path: Path) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        client, gate = rig.client(), Gate()
        origin.faults.add(HoldRequest(gate), method="PUT")
        async with await client.open() as connection:
            await connection.send(client.sign("PUT", path_of("bucket", "key"), (), BODY).wire)
            await gate.reached()
            assert rig.parts.storage.budget.in_use > len(BODY)
        gate.open()
        await run_loop_until(lambda: rig.worker.listener.requests.is_idle and rig.worker.listener.connections == 0)
        assert at_origin(origin, "key", "bucket") == BODY
        assert rig.parts.storage.budget.in_use == 0


async def test_an_upload_goes_on_when_all_requests_are_broken_off(tmp_path: Path) -> None:
    """Its second invalidation comes as well: the next read is not answered by what was cached before."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        client, target, gate = rig.client(), path_of("bucket", "key"), Gate()
        origin.store.put("bucket", "key", b"before")
        await client.request("GET", target)
        origin.faults.add(HoldRequest(gate), method="PUT")
        async with await client.open() as connection:
            await connection.send(client.sign("PUT", target, (), BODY).wire)
            await gate.reached()
            await rig.worker.listener.requests.close()
            gate.open()
            assert (await connection.answer("PUT")).status == 200
        assert (await client.request("GET", target)).body == BODY


async def _past_aiohttp(rig: Rig, client: RawClient, request: RawRequest) -> RawAnswer:
    server = rig.worker.listener.server
    parsed = server.requests_count
    answer = await client.send(request)
    assert server.requests_count == parsed
    return answer


async def _by_aiohttp(rig: Rig, client: RawClient, request: RawRequest) -> RawAnswer:
    reads, server = rig.worker.listener.reads, rig.worker.listener.server
    lane, reads.fast_lane = reads.fast_lane, None
    parsed = server.requests_count
    answer = await client.send(request)
    reads.fast_lane = lane
    assert server.requests_count == parsed + 1
    return answer


def _lasting(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    passing = {"date", "x-amz-request-id", "x-oss-request-id", "last-modified"}
    return [pair for pair in pairs if pair[0].lower() not in passing]


def _document(body: bytes) -> bytes:
    return re.sub(rb"<(RequestId|LastModified)>[^<]*<", b"<", body)
