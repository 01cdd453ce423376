"""A batch is no way in: of a key that its sender may not read it tells nothing, not even whether there is one.

Each caller, in both dialects and both orders, with existing and missing closed objects among open ones, from an empty
cache and from one that has them: the answers are the same but for names, ids and time.
"""

import time
from base64 import b64decode
from pathlib import Path
from typing import Final

import pytest

from harness.batches import batch_body, entries_in, read_batch
from harness.clients import RawRequest
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig
from harness.socket_rig import SocketClient, client_by, socket_setting
from security.oss_signers import OSS_SIGNERS
from security.signers import SIGNERS

TARGET: Final = "/bucket/.forebay/batch"
THERE: Final = [f"closed/there-{number}" for number in range(3)]
MISSING: Final = [key.replace("there", "wants") for key in THERE]
NOBODY, ELSEWHERE, WRITER = Secret("none", "none-secret"), Secret("else", "else-secret"), Secret("writer", "w-secret")
OWNER: Final = Secret("owner", "owner-secret")
RULES: Final = """
[[rules]]
path = "**"
freshness = "immutable"

[[auth.keys]]
id = "none"
secret = "none-secret"
grants = []

[[auth.keys]]
id = "else"
secret = "else-secret"
grants = [{ path = "other/**", allow = ["read", "list"] }]

[[auth.keys]]
id = "writer"
secret = "w-secret"
grants = [{ path = "bucket/closed/**", allow = ["write", "list", "delete"] },
          { path = "bucket/open/**", allow = ["read"] }]

[[auth.keys]]
id = "owner"
secret = "owner-secret"
origin_access_key = "owner"
origin_secret_key = "unknown-there"
grants = [{ path = "**", allow = ["read", "list"] }]
"""
ANONYMOUS: Final = '[auth.anonymous]\ngrants = [{ path = "bucket/open/**", allow = ["read"] }]\n'


def _s3(secret: Secret, body: bytes) -> RawRequest:
    return SIGNERS["SignedV4", "header"](secret, "POST", TARGET, (), body, time.time(), None)


def _oss(secret: Secret, body: bytes) -> RawRequest:
    return OSS_SIGNERS["SignedOssV4", "header"](secret, "POST", TARGET, (), body, time.time(), None)


@pytest.mark.parametrize("lane", ["http", "channel"])
@pytest.mark.parametrize("is_warm", [False, True])
async def test_closed_keys_tell_nothing(tmp_path: Path, lane: str, is_warm: bool) -> None:
    server = socket_setting(tmp_path)
    async with (
        FakeOrigin() as origin,
        Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES + ANONYMOUS, server=server) as rig,
    ):
        client = client_by(lane, rig)
        for key in (*THERE, "open/a"):
            origin.store.put("bucket", key, b"content of " + key.encode())
        if is_warm:
            assert {entry.status for entry in await read_batch(rig.client(TRAINER), "bucket", THERE)} == {200}
        before = {key: origin.log.count(key=key) for key in THERE}
        for ask in (_s3, _oss):
            for secret in (READER, WRITER):
                for order in ("listed", "arrival"):
                    shown = []
                    for closed in (THERE, MISSING):
                        body = batch_body([closed[0], "open/a", *closed[1:]], order=order)
                        answer = await client.send(ask(secret, body))
                        assert b"content of closed" not in answer.body
                        entries = sorted(entries_in(answer.body), key=lambda entry: entry.position or 0)
                        assert sorted(entry.code for entry in entries) == ["", *["AccessDenied"] * 3]
                        shown.append(answer.body.replace(b"there", b"wants").replace(b"wants", b""))
                    assert len(shown[0]) == len(shown[1])
        anonymous = await client.unsigned("POST", TARGET, (), batch_body([THERE[0], "open/a"]))
        assert [entry.code for entry in entries_in(anonymous.body)] == ["AccessDenied"] * 2
        assert origin.log.count(key="open/a") == 2, "the origin decides what is open to everybody"
        assert {key: origin.log.count(key=key) for key in THERE} == before, "the origin was asked"
        if isinstance(client, SocketClient):
            assert client.answered == 17
            client.close()


@pytest.mark.parametrize("lane", ["http", "channel"])
async def test_who_may_read_nothing_in_the_bucket_sends_no_batch(tmp_path: Path, lane: str) -> None:
    server = socket_setting(tmp_path)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES, server=server) as rig:
        client = client_by(lane, rig)
        origin.store.put("bucket", THERE[0], b"content of closed")
        body = batch_body([THERE[0], "gone"])
        asked = origin.log.count()
        for request in (
            _s3(NOBODY, body),
            _s3(ELSEWHERE, body),
            _oss(ELSEWHERE, body),
            _s3(Secret("trainer", "wrong"), body),
        ):
            answer = await client.send(request)
            refused = answer.body + b64decode(answer.headers.get("x-oss-err", ""))
            assert (answer.status, b"content" in refused) == (403, False)
        assert (await client.unsigned("POST", TARGET, (), body)).status == 403
        changed = _s3(TRAINER, body)
        forged = RawRequest("POST", TARGET, changed.pairs, body.replace(b"gone", b"open"))
        assert (await client.send(forged)).status == 400, "the body is signed"
        assert origin.log.count() == asked
        if isinstance(client, SocketClient):
            assert client.answered == 0
            assert (await client.send(_s3(READER, batch_body(["open/a"])))).status == 200, "the channel goes on"
            assert client.answered == 1
            client.close()


@pytest.mark.parametrize("lane", ["http", "channel"])
async def test_an_own_credential_needs_the_origins_permission(tmp_path: Path, lane: str) -> None:
    server = socket_setting(tmp_path)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=RULES, server=server) as rig:
        owner = client_by(lane, rig, OWNER)
        origin.store.put("bucket", THERE[0], b"content of closed")
        assert (await read_batch(rig.client(TRAINER), "bucket", THERE[:1]))[0].body == b"content of closed"
        for _ in range(2):
            (denied,) = await read_batch(owner, "bucket", THERE[:1])
            assert (denied.status, denied.body) in {(403, b""), (503, b"")}
        if isinstance(owner, SocketClient):
            assert owner.answered == 2
            owner.close()
