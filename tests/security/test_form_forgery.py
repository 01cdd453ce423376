"""Forgery of form uploads: what is signed is the policy, and the policy says what the form may say.

A signed form, and every change to it: of each digit of its signature, each character of its policy, each field, the
bucket, the size of the file, the time. Nothing changed is stored, nor reaches the origin. Forms that prove nothing at
all are in test_matrix.
"""

import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from forebay.protocol.signatures.signing_key import sign, signing_key
from harness.clients import RawRequest
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import timestamp_of
from harness.rig import TRAINER, Rig
from security.gateway_requests import handle_raw_request
from security.required_grants import FORM_TYPE
from security.scale import SCALE
from security.signers import HOST, v2_signature

Fields: TypeAlias = list[tuple[str, str]]

FILE: Final = b"what is posted"
EXPIRATION: Final = "2099-01-01T00:00:00Z"
VERSIONS: Final = ("v4", "v2")


def signed_form(version: str, now: float, expiration: str = EXPIRATION) -> Fields:
    """The fields of an honest form."""
    timestamp = timestamp_of(now)
    credential = f"{TRAINER.access}/{timestamp[:8]}/us-east-1/s3/aws4_request"
    proofs = [("x-amz-algorithm", "AWS4-HMAC-SHA256"), ("x-amz-credential", credential), ("x-amz-date", timestamp)]
    conditions: list[object] = [
        {"bucket": "bucket"},
        ["starts-with", "$key", "mine/"],
        ["eq", "$Content-Type", "text/plain"],
        {"x-amz-meta-colour": "red"},
        ["content-length-range", 1, 100],
        *({name: value} for name, value in (proofs if version == "v4" else [])),
    ]
    policy = b64encode(json.dumps({"expiration": expiration, "conditions": conditions}).encode()).decode()
    fields = [("key", "mine/posted"), ("Content-Type", "text/plain"), ("x-amz-meta-colour", "red"), ("policy", policy)]
    if version == "v2":
        return [*fields, ("AWSAccessKeyId", TRAINER.access), ("signature", v2_signature(TRAINER, policy))]
    key = signing_key(TRAINER.secret, timestamp[:8], "us-east-1", "s3")
    return [*fields, *proofs, ("x-amz-signature", sign(key, policy))]


def form(fields: Fields, file: bytes = FILE, target: str = "/bucket") -> RawRequest:
    parts = [
        f'--boundary\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields
    ]
    head = '--boundary\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    body = ("".join(parts) + head).encode() + file + b"\r\n--boundary--\r\n"
    pairs = (("Host", HOST), ("Content-Type", FORM_TYPE), ("Content-Length", str(len(body))))
    return RawRequest("POST", target, pairs, body)


def _changed(text: str, digits: str) -> Iterator[str]:
    for at, old in enumerate(text):
        for new in digits:
            if new != old:
                yield text[:at] + new + text[at + 1 :]
    yield text[:-1]
    yield f"{text}0"


def forged(fields: Fields) -> Iterator[Fields]:
    """Every change to one field, and fields that the policy does not know."""
    for index, (name, value) in enumerate(fields):
        before, after = fields[:index], fields[index + 1 :]
        yield before + after
        lower = name.lower()
        digits = "0123456789abcdef" if lower == "x-amz-signature" else "Aa0+"
        for changed in _changed(value, digits if "signature" in lower or SCALE > 1 else "A0"):
            if lower == "key" and changed.startswith("mine/"):
                continue  # which the policy leaves open
            yield [*before, (name, changed), *after]
        yield [*before, (name, value), *after, (name, f"{value}x")]
    for added in (
        *(("x-amz-acl", "public-read"), ("acl", "public-read"), ("x-amz-meta-other", "x"), ("Cache-Control", "x")),
        *(
            ("x-amz-server-side-encryption", "AES256"),
            ("success_action_redirect", "http://elsewhere.test/"),
            ("tagging", "x"),
        ),
        *(("x-amz-website-redirect-location", "http://elsewhere.test/"), ("x-amz-storage-class", "GLACIER")),
        *(("bucket", "other"), ("x-amz-security-token", "t"), ("success_action_status", "200")),
    ):
        yield [*fields, added]


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_changed_form_is_stored(tmp_path: Path, version: str) -> None:
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        for bucket in ("bucket", "other"):
            origin.store.create_bucket(bucket)
        now = rig.now()
        fields = signed_form(version, now)
        reply, _ = await handle_raw_request(rig.parts.requests.gateway, form(fields), now)
        assert reply.status == 204, reply.body
        stored = origin.store.current("bucket", "mine/posted")
        assert stored is not None
        origin.store.delete("bucket", "mine/posted")
        origin.log.reset()

        late = signed_form(version, now, "2020-01-01T00:00:00Z")
        requests = [form(each) for each in forged(fields)]
        requests += [
            form(fields, target=target) for target in ("/other", "/bucket/mine/posted", "/", "/bucket?uploads")
        ]
        requests += [form(late), form(fields, b""), form(fields, b"x" * 101), form(fields[::-1][1:])]
        for request in requests:
            reply, record = await handle_raw_request(rig.parts.requests.gateway, request, now)
            assert 400 <= reply.status < 500 or reply.status == 501, (request.body, reply.body)
            assert record.error != "InternalError"
        assert [seen for seen in origin.log.requests if seen.bucket is not None] == []
        assert len(requests) > 300


@pytest.mark.parametrize("version", VERSIONS)
async def test_no_bytes_of_a_form_changed_are_a_fault_or_another_object(tmp_path: Path, version: str) -> None:
    """Each byte in turn: what is stored all the same is under the prefix that was signed, and of the type."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.create_bucket("bucket")
        now = rig.now()
        honest = form(signed_form(version, now))
        for at in range(0, len(honest.body), 2):
            for flip in (1, 0x20, 0x80):
                body = bytearray(honest.body)
                body[at] ^= flip
                request = RawRequest("POST", honest.target, honest.pairs, bytes(body))
                reply, record = await handle_raw_request(rig.parts.requests.gateway, request, now)
                assert record.error != "InternalError", bytes(body)
                assert reply.status != 500
        for seen in origin.log.requests:
            if seen.bucket is not None:
                assert (seen.method, seen.bucket) == ("PUT", "bucket")
                assert (seen.key or "").startswith("mine/")
                assert seen.headers["Content-Type"] == "text/plain"
                assert seen.headers["x-amz-meta-colour"] == "red"
