"""The matrix: form of authentication, form of payload, place of the credential, operation.

No cell of it that is not authenticated is answered with success, and none reaches the origin. The operations come from
the catalogue, the forms from the types that the verifiers give: what comes anew is either in the matrix or fails it.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

import pytest

from forebay.protocol.body.chunk_signatures import ChunkedMode
from forebay.protocol.body.payload import AwsChunkedPayload, HashedPayload, PayloadForm, UnsignedPayload
from forebay.protocol.operation_table import OPERATIONS
from forebay.protocol.oss.oss_operation_table import OSS_CATALOGUE
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.fast_lane import FastLane
from harness.clients import RawRequest
from harness.fake_origin import FakeOrigin
from harness.lane_responses import has_template
from harness.reference_sigv4 import Secret
from harness.rig import TRAINER, Rig
from harness.socket_rig import client_by, socket_setting
from security.gateway_requests import handle_raw_request
from security.oss_required_grants import OSS_NEEDS, OSS_SAMPLES, OSS_STRANGE, name_of
from security.oss_signers import ALL_SIGNERS, SUB_RESOURCES
from security.required_grants import (
    ACCESSES,
    BUCKET,
    FORM_TYPE,
    KEY,
    REQUIRED_GRANTS,
    SAMPLES,
    UNKNOWN_OPERATIONS,
    Sample,
)
from security.scale import SCALE
from security.signers import HOST, SIGNERS, form_name, known_forms, v2_signature
from security.unauthenticated_requests import (
    PAYLOADS,
    unauthenticated_oss_requests,
    unauthenticated_requests,
    unsigned_request,
)

CONTENT: Final = b"what nobody may see " * 20
KEYS: Final = tuple((f"{which}-{access}", access, which) for which in ("only", "except") for access in ACCESSES)
# Answers of the gate, and of nothing behind it.
GATE: Final = frozenset(
    {
        "AccessDenied",
        "AuthorizationHeaderMalformed",
        "AuthorizationQueryParametersError",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidToken",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)


def _grants() -> str:
    """A key for each access that may do only that, and one that may do all but that."""
    lines = []
    for name, access, which in KEYS:
        allowed = [access] if which == "only" else [each for each in ACCESSES if each != access]
        words = ", ".join(f'"{each}"' for each in allowed)
        lines.append(
            f'[[auth.keys]]\nid = "{name}"\nsecret = "s-{name}"\ngrants = [{{ path = "**", allow = [{words}] }}]\n'
        )
    return "\n".join(lines)


def _filled(origin: FakeOrigin) -> None:
    for key in (KEY, "source"):
        origin.store.put(BUCKET, key, CONTENT)


@pytest.fixture
async def warm(tmp_path: Path) -> AsyncIterator[tuple[Rig, FakeOrigin]]:
    """A Forebay with the object in memory, and an origin that has forgotten that it was asked."""
    settings = {"rest": _grants(), "server": socket_setting(tmp_path)}
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, **settings) as rig:
        _filled(origin)
        for _ in range(2):
            assert (await rig.client().request("GET", f"/{BUCKET}/{KEY}")).body == CONTENT
        origin.log.reset()
        yield rig, origin


def _lane(rig: Rig) -> FastLane:
    lane = rig.worker.listener.reads.fast_lane
    assert lane is not None
    return lane


def _reached(origin: FakeOrigin) -> list[str]:
    """What was asked of the origin, but for the worker's own look whether it is there."""
    return [f"{seen.method} {seen.target}" for seen in origin.log.requests if seen.bucket is not None]


def test_the_matrix_is_whole() -> None:
    assert known_forms() == set(ALL_SIGNERS), "a form without a row: give it a signer in security.signers or ossforms"
    assert {row.name for row in OSS_CATALOGUE if row.s3} == {
        row.name for row in OSS_CATALOGUE if name_of(row) in OSS_NEEDS
    }, "an operation without a row: see security.oss_required_grants"
    assert {name_of(row) for row in OSS_CATALOGUE} >= set(OSS_NEEDS)
    assert {row.name for row in OPERATIONS} == set(REQUIRED_GRANTS), (
        "an operation without a row: see security.required_grants"
    )
    assert set(get_args(PayloadForm)) == {HashedPayload, UnsignedPayload, AwsChunkedPayload}
    assert {mode.value for mode in ChunkedMode} <= set(PAYLOADS)


def _payloads(nth: int) -> tuple[str | None, ...]:
    """The forms of payload that the nth sample is tried with: three, of which two change from sample to sample, and
    all in the larger runs."""
    others = len(PAYLOADS) - 1
    return PAYLOADS if SCALE > 1 else (PAYLOADS[0], *(PAYLOADS[1 + (2 * nth + more) % others] for more in (0, 1)))


def _unproved(now: float, *, plain: bool = False) -> Iterator[tuple[Sample, object, RawRequest]]:
    """Both dialects' cells. `plain`: with one form of payload alone."""
    for nth, sample in enumerate((*SAMPLES, *UNKNOWN_OPERATIONS)):
        # What nobody knows is refused before its body is looked at; one form of payload shows that.
        for payload in _payloads(nth) if sample in SAMPLES and not plain else PAYLOADS[:1]:
            for how, request in unauthenticated_requests(sample, payload, TRAINER, now):
                yield sample, (payload, how), request
    for sample in (*OSS_SAMPLES, *OSS_STRANGE):
        for how, request in unauthenticated_oss_requests(sample, TRAINER, now):
            yield sample, how, request


async def test_nothing_unproved_is_answered_or_reaches_the_origin(warm: tuple[Rig, FakeOrigin]) -> None:
    rig, origin = warm
    now, cells = rig.now(), 0
    # One whose requests have been answered, in every form: whoever comes after it, on its connection or on another, has
    # to prove as much.
    known = ClientState("test")
    for form, sign in ALL_SIGNERS.items():
        proved = sign(TRAINER, "GET", f"/{BUCKET}/{KEY}", (), b"", now, None).wire
        assert _lane(rig).answer(proved, known) is not None
        assert has_template(rig, known, proved) == (form != ("SignedOssV2", "query"))
    for sample, how, request in _unproved(now):
        cells += 1
        reply, record = await handle_raw_request(rig.parts.requests.gateway, request, now)
        assert 400 <= reply.status < 600, (sample, how)
        assert reply.status != 500, (sample, how)
        assert record.principal == "", (sample, how)
        assert record.step in {"parse", "authenticate"}, (sample, how)
        assert CONTENT[:20] not in reply.body
        if sample.method in {"GET", "HEAD"}:
            assert _lane(rig).answer(request.wire, ClientState("test")) is None, (sample, how)
            assert _lane(rig).answer(request.wire, known) is None, (sample, how)
    assert _reached(origin) == []
    assert cells > (90_000 if SCALE > 1 else 30_000)


@pytest.mark.parametrize("lane", ["fast", "full", "channel"])
async def test_nothing_unproved_is_answered_over_a_socket(warm: tuple[Rig, FakeOrigin], lane: str) -> None:
    rig, origin = warm
    client, now = client_by(lane, rig), rig.now()
    for number, sample in enumerate((*SAMPLES, *OSS_SAMPLES)):
        step, cells = 7, unauthenticated_requests(sample, PAYLOADS[number % 5], TRAINER, now)
        if number >= len(SAMPLES):
            step, cells = 29, unauthenticated_oss_requests(sample, TRAINER, now)
        for count, (how, request) in enumerate(cells):
            if not (sample.name in {"GetObject", "HeadObject"} or (lane == "full" and count % step == number % step)):
                continue
            answer = await client.send(request)
            assert 400 <= answer.status < 600, (sample, how)
            assert answer.status != 500, (sample, how)
            assert CONTENT[:20] not in answer.body
    assert _reached(origin) == []


def _query_names(sample: Sample) -> set[str]:
    return {pair.partition("=")[0] for pair in sample.target.partition("?")[2].split("&")} - {""}


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
async def test_authenticated_request_is_accepted(warm: tuple[Rig, FakeOrigin], form: tuple[str, str]) -> None:
    """Else the matrix would be green of nothing but refusals."""
    rig, origin = warm
    for sample in SAMPLES if form in SIGNERS else OSS_SAMPLES:
        if sample.name == "PostObject":
            continue  # signs in its form, not in its head
        request = ALL_SIGNERS[form](TRAINER, *sample[1:], rig.now(), None)
        reply, record = await handle_raw_request(rig.parts.requests.gateway, request, rig.now())
        if form[0] == "SignedOssV1" and not _query_names(sample) <= SUB_RESOURCES | {"list-type"}:
            # No client signs this name in version 1, so nobody can have asked for what it selects.
            assert sample.name not in OSS_NEEDS
            assert record.error == "AccessDenied", (sample, reply.body)
            continue
        assert record.principal == "trainer", (sample, reply.body)
        assert record.error not in GATE, (sample, reply.body)
    assert len(_reached(origin)) > (50 if form in SIGNERS else 30)


@pytest.mark.parametrize(
    "form", [("SignedV4", "header"), ("SignedOssV4", "header"), ("SignedOssV1", "query")], ids=form_name
)
async def test_each_operation_requires_its_grant(warm: tuple[Rig, FakeOrigin], form: tuple[str, str]) -> None:
    """A key that may do all but that is denied; a key that may do only that is not."""
    rig, origin = warm
    said: Counter[str] = Counter()
    for sample in SAMPLES if form in SIGNERS else OSS_SAMPLES:
        need = REQUIRED_GRANTS[sample.name] if form in SIGNERS else OSS_NEEDS.get(sample.name, "nobody")
        if need in {"form", "any"}:
            continue
        said[need] += 1
        for name, access, which in KEYS:
            origin.log.reset()
            request = ALL_SIGNERS[form](Secret(name, f"s-{name}"), *sample[1:], rig.now(), None)
            reply, record = await handle_raw_request(rig.parts.requests.gateway, request, rig.now())
            allowed = (access == need) == (which == "only")
            if not {"x-amz-copy-source", "x-oss-copy-source"}.isdisjoint(dict(sample.pairs)):
                allowed = which == "except" and access not in {"read", "write"}  # it reads one and writes another
            if need == "nobody":
                assert reply.status in {403, 405, 412, 501}, (sample, name)
                allowed = False
            elif allowed:
                assert record.error not in GATE, (sample, name, reply.body)
            else:
                assert record.error == "AccessDenied", (sample, name, reply.body)
            if not allowed:
                assert _reached(origin) == [], (sample, name)
    assert said.keys() == {*ACCESSES, "nobody"}


UNSIGNED: Final = frozenset({"anonymous", "query as headers"})
"""How a request of the matrix looks that has no part of a signature where a signature can be."""


def _anonymous_grants(path: str, accesses: Iterable[str]) -> str:
    words = ", ".join(f'"{each}"' for each in accesses)
    return f'[auth.anonymous]\ngrants = [{{ path = "{path}", allow = [{words}] }}]\n'


async def test_bad_signature_makes_no_anonymous_client(tmp_path: Path) -> None:
    """Where requests without a signature have grants, those with any part of one are refused as ever."""
    rest = _anonymous_grants("elsewhere/**", ACCESSES)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        _filled(origin)
        origin.is_public = lambda _: True
        now, anonymous = rig.now(), set[str]()
        for sample, cell, request in _unproved(now, plain=True):  # the form of the payload has no part in it
            how = cell[1] if isinstance(cell, tuple) else str(cell)
            reply, record = await handle_raw_request(rig.parts.requests.gateway, request, now)
            assert 400 <= reply.status < 600, (sample, how)
            assert reply.status != 500, (sample, how)
            if record.principal:
                assert record.principal == "anonymous"
                anonymous.add(how)
        assert _reached(origin) == []
        # Only what has a part of a signature where none belongs, and would be answered without it all the same.
        assert {how for how in anonymous if not how.startswith("header ") and "in " not in how} == UNSIGNED
        assert not any("token" in how for how in anonymous)


@pytest.mark.parametrize("which", ["only", "except"])
@pytest.mark.parametrize("access", ACCESSES)
async def test_each_anonymous_operation_requires_its_grant(tmp_path: Path, access: str, which: str) -> None:
    """All of it is public at the origin, so that the grants alone decide; and all that reaches it is unsigned."""
    granted = [access] if which == "only" else [each for each in ACCESSES if each != access]
    rest = _anonymous_grants("**", granted)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, rest=rest) as rig:
        _filled(origin)
        origin.is_public = lambda _: True
        for sample in (*SAMPLES, *OSS_SAMPLES):
            is_oss = sample not in SAMPLES
            need = OSS_NEEDS.get(sample.name, "nobody") if is_oss else REQUIRED_GRANTS[sample.name]
            if need in {"form", "any"}:
                continue
            request = unsigned_request(sample, None)
            if is_oss:
                request = replace(request, pairs=(*request.pairs, ("x-oss-unknown", "1")))
            origin.log.reset()
            reply, record = await handle_raw_request(rig.parts.requests.gateway, request, rig.now())
            allowed = need in granted
            if not {"x-amz-copy-source", "x-oss-copy-source"}.isdisjoint(dict(sample.pairs)):
                allowed = {"read", "write"} <= set(granted)
            if allowed:
                assert record.error not in GATE, (sample, reply.body)
            else:
                assert reply.status in {400, 403, 404, 405, 412, 501}, (sample, reply.body)
                assert _reached(origin) == [], sample
            sent = [seen for seen in origin.log.requests if seen.bucket is not None]  # the credential probe is signed
            assert not any("Authorization" in seen.headers for seen in sent), sample


def _form(fields: list[tuple[str, str]]) -> bytes:
    parts = [f'--boundary\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}' for name, value in fields]
    file = '--boundary\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nposted'
    return "\r\n".join([*parts, file, "--boundary--\r\n"]).encode()


def _forms() -> dict[str, list[tuple[str, str]]]:
    """Fields of forms that prove nothing."""
    open_policy = '{"expiration": "2099-01-01T00:00:00Z", "conditions": [["starts-with", "$key", ""]]}'
    policy = b64encode(open_policy.encode()).decode()
    wrong = v2_signature(Secret("trainer", "wrong"), policy)
    v4 = [
        ("x-amz-algorithm", "AWS4-HMAC-SHA256"),
        ("x-amz-credential", "trainer/20270115/us-east-1/s3/aws4_request"),
        ("x-amz-date", "20270115T080000Z"),
    ]
    key = ("key", KEY)
    return {
        "key alone": [key],
        "no key": [],
        "policy unsigned": [key, ("policy", policy)],
        "policy empty": [key, ("policy", ""), ("AWSAccessKeyId", "trainer"), ("signature", v2_signature(TRAINER, ""))],
        "v2 wrong": [key, ("AWSAccessKeyId", "trainer"), ("policy", policy), ("signature", wrong)],
        "v2 unknown key": [key, ("AWSAccessKeyId", "nobody"), ("policy", policy), ("signature", wrong)],
        "v2 no signature": [key, ("AWSAccessKeyId", "trainer"), ("policy", policy)],
        "v2 no policy": [key, ("AWSAccessKeyId", "trainer"), ("signature", wrong)],
        "v4 wrong": [key, *v4, ("policy", policy), ("x-amz-signature", "0" * 64)],
        "v4 empty": [key, *v4, ("policy", policy), ("x-amz-signature", "")],
        "v4 no signature": [key, *v4, ("policy", policy)],
        "v4 no policy": [key, *v4, ("x-amz-signature", "0" * 64)],
        "redirect": [key, ("success_action_redirect", "http://elsewhere.test/")],
        "status": [key, ("success_action_status", "200"), ("acl", "public-read-write")],
    }


@pytest.mark.parametrize("fields", _forms())
async def test_unsigned_form_is_refused(warm: tuple[Rig, FakeOrigin], fields: str) -> None:
    rig, origin = warm
    body = _form(_forms()[fields])
    for target in (f"/{BUCKET}", f"/{BUCKET}/", f"/{BUCKET}/{KEY}", "/"):
        sample = Sample("PostObject", "POST", target, [("Content-Type", FORM_TYPE)], body)
        for payload in PAYLOADS:
            request = unsigned_request(sample, payload)
            reply, _ = await handle_raw_request(rig.parts.requests.gateway, request, rig.now())
            assert 400 <= reply.status < 600, (target, payload, reply.body)
            assert reply.status != 500
        pairs = (("Host", HOST), ("Content-Type", FORM_TYPE), ("Content-Length", str(len(body))))
        answer = await rig.client().send(RawRequest("POST", target, pairs, body))
        assert 400 <= answer.status < 600
        assert answer.status != 500
    assert _reached(origin) == []
