"""The same programs in the terms of OSS: straight to the stand-in for OSS, and through Forebay to another one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Final

from multidict import CIMultiDict, CIMultiDictProxy

from differential.program import Call, Pairs, Program, Step
from harness.clients import RawClient
from harness.fake.s3_request import S3Request
from harness.oss.authority import signature
from harness.oss.oss_request import CLASSES, parse
from harness.oss_origin import DOMAIN
from harness.raw_connection import RawAnswer, RawConnection, head_bytes
from harness.reference_sigv4 import Secret, timestamp_of
from security.oss_signers import OSS_SIGNERS

_FORMS: Final = ("plain", "plain", *(f"{version}{form}" for version in ("v1", "v2", "v4") for form in ("", "-query")))
_LACKED: Final = frozenset(["partNumber", "torrent", "unknown"])
"""Reads in the query that OSS has nothing like."""
_UNKNOWN_HEADERS: Final = ("x-amz-checksum-", "x-amz-expected-", "x-amz-object-lock-", "if-range")
_CONDITIONS: Final = frozenset(["if-match", "if-none-match"])
_CLASSES: Final = {s3: oss for oss, s3 in CLASSES.items()}


def in_oss(program: Program) -> Iterator[Step]:
    """The steps that OSS has an equivalent of."""
    for step in program:
        if not isinstance(step, Call):
            yield step
        elif _is_known(step):
            query = tuple(pair for pair in step.query if pair[0] != "x-id")
            random = Random(step.number)
            if step.method == "HEAD" and not query and random.random() < 0.4:
                query = (("objectMeta", ""),)
            yield replace(step, query=query, headers=tuple(_headers(step)), form=random.choice(_FORMS))


def _is_known(call: Call) -> bool:
    """Left out: HeadBucket, reads by part, POST of nothing, and encodings that neither has."""
    names = {name for name, _ in call.query}
    if (
        call.form == "posted"
        or "attributes" in names
        or (call.method == "HEAD" and not call.key)
        or (call.method == "POST" and not names)
    ):
        return False
    return ("uploadId" in names or names.isdisjoint(_LACKED)) and ("encoding-type", "other") not in call.query


def _headers(call: Call) -> Iterator[tuple[str, str]]:
    for name, sent in call.headers:
        lower, value = name.lower(), sent.replace("W/", "")  # OSS has no weak ETags
        if lower.startswith(_UNKNOWN_HEADERS) or (call.method not in {"GET", "HEAD"} and lower in _CONDITIONS):
            continue
        if lower == "range" and (call.method == "HEAD" or value.startswith("Bytes")):
            continue
        if lower == "x-amz-storage-class":
            yield "x-oss-storage-class", _CLASSES.get(value, value)
        elif lower == "x-amz-acl":
            yield "x-oss-object-acl", value
        else:
            yield lower.replace("x-amz-", "x-oss-", 1) if lower.startswith("x-amz-") else name, value


def on_oss(program: Program) -> Iterator[Step]:
    """The steps of S3 clients in front of OSS, which has no weak ETags, no If-Range, and no ranges of a HEAD, so that
    the answer to what is forwarded is another one than to what is cached."""
    for step in program:
        if isinstance(step, Call):
            lacking = {"If-Range", *{"HEAD": ["Range"], "POST": ["If-Match"]}.get(step.method, [])}
            headers = tuple((name, value.replace('W/"', '"')) for name, value in step.headers if name not in lacking)
            yield replace(step, headers=headers)
        else:
            yield step


class OssClient:
    """Signs by version 4. The signature is of the bucket and the key, wherever they stand in the request."""

    def __init__(self, port: int, secret: Secret, clock: Callable[[], float], *, virtual: bool) -> None:
        self._port, self._secret, self._clock, self._virtual = port, secret, clock, virtual

    async def send(self, call: Call, target: str, headers: list[tuple[str, str]], body: bytes) -> RawAnswer:
        if call.form != "plain" and not self._virtual:
            version, _, form = call.form.partition("-")
            sign = OSS_SIGNERS[f"SignedOss{version.upper()}", form or "header"]
            request = sign(self._secret, call.method, target, headers, body, self._clock(), None)
            return await RawClient(f"http://127.0.0.1:{self._port}", self._secret).send(request)
        bucket, slash, rest = target[1:].partition("/")
        bare, mark, query = bucket.partition("?")
        inner = f"/{rest}" if slash else f"/{mark}{query}"
        timestamp = timestamp_of(self._clock())
        pairs: Pairs = (
            ("Host", f"{bare}.{DOMAIN}:{self._port}"),
            ("x-oss-date", timestamp),
            ("x-oss-content-sha256", "UNSIGNED-PAYLOAD"),
            *headers,
        )
        if body or call.method in {"PUT", "POST"}:
            pairs += (("Content-Length", str(len(body))),)
        parsed = parse(call.method, inner, CIMultiDictProxy(CIMultiDict(pairs)), DOMAIN)
        assert isinstance(parsed, S3Request)
        proof = signature(self._secret, timestamp, parsed, [])
        scope = f"{timestamp[:8]}/{self._secret.region}/oss/aliyun_v4_request"
        credential = f"OSS4-HMAC-SHA256 Credential={self._secret.access}/{scope}, Signature={proof}"
        if not self._virtual:
            pairs = (("Host", f"127.0.0.1:{self._port}"), *pairs[1:])
        async with await RawConnection.open("127.0.0.1", self._port) as connection:
            sent = inner if self._virtual else target
            await connection.send(head_bytes(call.method, sent, (*pairs, ("Authorization", credential))) + body)
            return await connection.answer(call.method)
