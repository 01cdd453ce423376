"""Secrets: canaries in every place where a secret can stand, sent through everything, and looked for everywhere else.

    secret        of a client's key and of the origin's, session tokens, the admin token, SSE-C keys
    signature     of every request that was sent: of a presigned URL it is a credential
    access key    one that does not exist: people paste a secret where the key belongs

None of them is in a log record at level debug (tracebacks included), in the access log, in a metric, in an answer of
either port, in a repr, or in a file of the cache's directory. An access key that does exist is the name of a principal,
and stands in the access log as such; one that doesn't is told to nobody but who sent it.
"""

import base64
import hashlib
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import pytest

from forebay.core.cooperative import run_to_completion
from forebay.core.errors import S3Error
from forebay.protocol.signatures.sigv4_claim import read_claim
from forebay.protocol.target import parse_target
from harness.clients import RawClient, RawRequest
from harness.fake import actions
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import UNSIGNED, Secret
from harness.rig import Rig
from security.head_parsers import head_parsers
from security.oss_required_grants import OSS_SAMPLES
from security.oss_signers import ALL_SIGNERS, OSS_SIGNERS
from security.required_grants import SAMPLES
from security.signers import CHUNKED, SIGNERS

CLIENT: Final = Secret("known", "canary-secret-of-known", token="canary-token-of-known")
ORIGIN: Final = Secret("originkey", "canary-secret-of-origin")
UNKNOWN: Final = Secret("canary-unknown-key", "canary-secret-of-unknown", token="canary-token-of-unknown")
ADMIN: Final = "canary-admin-token-0123456789"
SSE_C: Final = base64.b64encode(b"canary-sse-c-key-of-32-bytes-xyz").decode()
_MD5: Final = base64.b64encode(hashlib.md5(base64.b64decode(SSE_C), usedforsecurity=False).digest()).decode()
_SSE: Final = [
    ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
    ("x-amz-server-side-encryption-customer-key", SSE_C),
    ("x-amz-server-side-encryption-customer-key-MD5", _MD5),
]
_SOURCE_SSE: Final = [(name.replace("x-amz-", "x-amz-copy-source-"), value) for name, value in _SSE]
_OSS_SSE: Final = [(name.replace("x-amz-", "x-oss-"), value) for name, value in _SSE]
_CONFIGURATION: Final = f"""
[[auth.keys]]
id = "known"
secret = "{CLIENT.secret}"
session_token = "{CLIENT.token}"
grants = [{{ path = "**", allow = ["read", "write", "list", "delete"] }}]
"""
_SIGNATURE: Final = re.compile(r"[Ss]ignature[=:]([^&,\s]+)|(?:AWS|OSS) [^:]+:(\S+)")


def _requests(now: float) -> Iterator[RawRequest]:
    """Everything by everybody, in every form, right and wrong."""
    wrong = Secret(CLIENT.access, "canary-wrong-secret", token=CLIENT.token)
    no_token = Secret(CLIENT.access, CLIENT.secret, token="canary-wrong-token")
    for form, sign in SIGNERS.items():
        for secret in (CLIENT, UNKNOWN, wrong, no_token):
            for sample in SAMPLES[:20]:
                yield sign(secret, *sample[1:], now, None)
            for pairs in (_SSE, _SOURCE_SSE + _SSE):
                copy = [("x-amz-copy-source", "bucket/source")] if pairs is not _SSE else []
                yield sign(secret, "GET", "/bucket/key", pairs, b"", now, None)
                yield sign(secret, "HEAD", "/bucket/key", pairs, b"", now, None)
                yield sign(secret, "PUT", "/bucket/sse", [*pairs, *copy], b"" if copy else b"content", now, None)
            yield sign(secret, "GET", "/bucket/key", (), b"", now - 86_400 * 9, None)
            yield sign(secret, "GET", "/bucket/%zz", _SSE, b"", now, None)
            yield sign(secret, "PATCH", "/bucket/key", _SSE, b"", now, None)
            yield sign(secret, "GET", "/bucket/key?acl&tagging", _SSE, b"", now, None)
        if form == ("SignedV4", "header"):
            for kind in CHUNKED:
                yield sign(CLIENT, "PUT", "/bucket/chunked", (), b"content", now, kind)
            yield sign(CLIENT, "PUT", "/bucket/plain", _SSE, b"content", now, UNSIGNED)
    for sign in OSS_SIGNERS.values():
        for secret in (CLIENT, UNKNOWN, wrong, no_token):
            for sample in OSS_SAMPLES[:20:4]:
                yield sign(secret, *sample[1:], now, None)
            for method in ("GET", "HEAD", "PUT"):
                yield sign(secret, method, "/bucket/key", _OSS_SSE, b"content" if method == "PUT" else b"", now, None)
            yield sign(secret, "GET", "/bucket/key", (), b"", now - 86_400 * 9, None)
            yield sign(secret, "GET", "/bucket/%zz", _OSS_SSE, b"", now, None)
            yield sign(secret, "PATCH", "/bucket/key", _OSS_SSE, b"", now, None)
            yield sign(secret, "GET", "/bucket/key?acl&frobnicate", _OSS_SSE, b"", now, None)
            yield sign(secret, "GET", "/bucket/key", [("x-amz-acl", "private")], b"", now, None)
        yield sign(Secret(CLIENT.access, CLIENT.secret), "GET", "/bucket/key", (), b"", now, None)
    query = f"security-token={CLIENT.token}&Signature=canary-signature&OSSAccessKeyId={UNKNOWN.access}"
    yield RawRequest("GET", f"/bucket/key?{query}", (("Host", "h"),))
    yield RawRequest("GET", "/bucket/key", (("Host", "h"), ("security-token", CLIENT.token or ""), ("x-oss-acl", "a")))
    yield RawRequest("GET", "/bucket/key", (("Host", "h"), ("Authorization", f"OSS4-HMAC-SHA256 {CLIENT.secret}")))
    query = f"X-Amz-Security-Token={CLIENT.token}&X-Amz-Signature=canary-signature&AWSAccessKeyId={UNKNOWN.access}"
    yield RawRequest("GET", f"/bucket/key?{query}", (("Host", "h"),))
    yield RawRequest("GET", "/bucket/key", (("Host", "h"), ("Authorization", f"Bearer {CLIENT.secret}")))
    yield RawRequest("GET", "/bucket/key", (("Host", "h"), ("Authorization", f"{CLIENT.secret}")))


def _signatures(request: RawRequest) -> list[str]:
    texts = [request.target, dict(request.pairs).get("Authorization", "")]
    found = [first or second for text in texts for first, second in _SIGNATURE.findall(text)]
    return [spelling for each in found if len(each) > 12 for spelling in (each, unquote(each))]


def _spellings(secret: str) -> list[bytes]:
    return [secret.encode(), quote(secret, safe="").encode(), base64.b64encode(secret.encode())[:-4]]


def _everything_in(directory: Path) -> Iterator[tuple[str, bytes]]:
    for root, _, names in os.walk(directory):
        for name in names:
            if name != "forebay.toml":
                yield name, Path(root, name).read_bytes()


async def test_no_secret_is_disclosed_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "forebay")
    caplog.set_level(logging.DEBUG, "aiohttp")
    caplog.set_level(logging.DEBUG, "asyncio")
    shown: list[tuple[str, bytes]] = []
    signatures: set[str] = set()
    server = f'admin_token = "{ADMIN}"\nlog_level = "debug"'
    async with FakeOrigin(secrets=(ORIGIN,)) as origin:
        rig = Rig(origin.endpoint, origin.secret, tmp_path, ssd="256MiB", server=server, rest=_CONFIGURATION)
        await rig.start()
        for key in ("key", "source"):
            origin.store.put("bucket", key, b"content" * 1000)
        client = RawClient(rig.endpoint, CLIENT)
        for trouble in (
            (),
            (actions.Respond(500, "InternalError"),),
            (actions.Drop(),),
            (actions.Garbage(),),
            (actions.Respond(403, "SignatureDoesNotMatch", "no"),),
        ):
            if trouble:
                origin.faults.add(*trouble, where=lambda asked: asked.key is not None and asked.bucket == "bucket")
            for number, request in enumerate(_requests(rig.now())):
                if trouble and number % 9:
                    continue
                signatures.update(_signatures(request))
                answer = await client.send(request)
                shown.append((f"the answer to {request}", answer.body + repr(answer.pairs).encode()))
            origin.faults.clear()
            rig.parts.origins.of(None).breaker.succeeded()
        for path in (
            "/metrics",
            "/config",
            "/v1/config",
            "/status",
            "/v1/status",
            "/",
            "/healthz",
            "/readyz",
            "/debug",
        ):
            for token in (ADMIN, f"{ADMIN}x", CLIENT.secret):
                admin = RawClient(rig.admin, CLIENT)
                answer = await admin.unsigned("GET", path, [("Authorization", f"Bearer {token}")])
                shown.append((f"{path} of the admin port", answer.body + repr(answer.pairs).encode()))
        shown.append(("the metrics", run_to_completion(rig.parts.context.metrics.exposition())))
        # A configuration that is refused is told of; not what stands in it.
        for spoilt in ('secret = "', 'session_token = "', 'secret_key = "'):
            text = rig.configuration.replace(spoilt, spoilt.replace(" = ", " = = "), 1)
            (rig.directory / "forebay.toml").write_text(text)
            await rig.worker.reload()
            (rig.directory / "forebay.toml").write_text(rig.configuration.replace(spoilt, f"unknown_{spoilt}", 1))
            await rig.worker.reload()
        shown += [
            ("repr of the policy", repr(rig.parts.requests.policy).encode()),
            ("repr of the gateway's policy", repr(rig.parts.requests.gateway.policy).encode()),
            ("repr of the settings", repr(rig.worker.control.settings).encode()),
            ("repr of the parts", repr(rig.parts).encode()),
        ]
        await rig.stop()
    shown += [(f"the file {name}", content) for name, content in _everything_in(tmp_path)]
    shown += [
        ("the log", f"{record.getMessage()} {record.args!r} {record.exc_text}".encode()) for record in caplog.records
    ]
    assert any("file" in where for where, _ in shown)
    assert any(where == "the log" for where, _ in shown)
    canaries = [
        CLIENT.secret,
        CLIENT.token or "",
        ORIGIN.secret,
        UNKNOWN.secret,
        UNKNOWN.token or "",
        ADMIN,
        SSE_C,
        "canary-wrong",
    ]
    for canary in canaries:
        for spelling in _spellings(canary):
            assert not [(where, text[:1000]) for where, text in shown if spelling in text], canary
    everything = b"\n".join(text for _, text in shown)
    assert len(signatures) > 300
    assert not [each for each in signatures if each.encode() in everything]
    by_others = [
        where for where, text in shown if UNKNOWN.access.encode() in text and not where.startswith("the answer")
    ]
    assert not by_others


def test_no_repr_tells_a_secret() -> None:
    """What could end in a log by way of an assertion or an f-string: claims and proofs of every form."""
    with head_parsers() as parsers:
        for form, sign in ALL_SIGNERS.items():
            pairs = _SSE if form in SIGNERS else _OSS_SSE
            request = sign(CLIENT, "GET", "/bucket/key", pairs, b"", 1_800_000_000.0, None)
            heard = parsers["c"](request.wire)
            assert heard is not None
            target = parse_target(heard.raw_target, "h", ())
            claim = read_claim(target, heard.headers)
            told = repr(claim)
            for secret in (*_signatures(request), CLIENT.secret, CLIENT.token or "", SSE_C):
                assert secret not in told, type(claim)


@pytest.mark.parametrize("code", ["SignatureDoesNotMatch", "InvalidToken"])
def test_error_contains_only_its_own_message(code: str) -> None:
    error = S3Error(code, StringToSign="text")
    assert str(error) == f"{code}: {error.message}"
