"""Head templates and prepared responses admit no unauthenticated request.

First head templates and prepared responses are established, on the connection and in the lane. Then come requests
without a proof, or with a proof of another principal, time or region. The fast lane answers none of them, and the full
lane answers as it would without templates.
"""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.protocol.operations import Access
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.request.authentication import Keyring
from forebay.server.fastpath.client_state import ClientState
from forebay.server.fastpath.fast_lane import FastLane
from forebay.server.fastpath.lane_answer import AdmittedRead
from harness.clients import RawRequest
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.lane_responses import fresh_lane, has_template, lane_response, socket_response
from harness.reference_sigv4 import Secret
from harness.rig import READER, TRAINER, Rig
from security.mutants import meaning, mutants
from security.oss_signers import ALL_SIGNERS
from security.scale import SCALE
from security.signers import ENDLESS, EXPIRES, HOST, SIGNERS, Form, Pairs, form_name

CONTENT: Final = b"nobody else may see this" * 10
TARGET: Final = "/bucket/closed/key"
ASKED: Final[Pairs] = (("Range", "bytes=0-99"), ("If-Match", md5_etag(CONTENT)))
SERVER: Final = 'domains = ["forebay.test"]\ncnames = { "data.example.com" = "bucket", "other.example.com" = "other" }'
FORMS: Final = [form for form in ALL_SIGNERS if form != ("SignedOssV2", "query")]
"""Those that have shapes."""


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    """An object that is a hit, and one of the same name in another bucket."""
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, server=SERVER) as rig:
        for bucket, content in (("bucket", CONTENT), ("other", CONTENT.upper())):
            origin.store.put(bucket, "closed/key", content)
            for _ in range(2):
                assert (await rig.client().request("GET", f"/{bucket}/closed/key")).body == content
        yield rig


def signed(form: Form, now: float, secret: Secret = TRAINER, method: str = "GET", pairs: Pairs = ASKED) -> RawRequest:
    return ALL_SIGNERS[form](secret, method, TARGET, pairs, b"", now, None)


def answered(lane: FastLane, request: RawRequest, caller: ClientState) -> bool:
    """Whether it is answered; a request that is not must have been refused, not only understood as no hit."""
    answer = lane.answer(request.wire, caller)
    assert not isinstance(answer, AdmittedRead)
    return answer is not None


def acquainted(rig: Rig, lane: FastLane, request: RawRequest) -> ClientState:
    """A connection over which this request has been answered, so that the next like it is read by its shape."""
    caller = ClientState("127.0.0.1")
    assert answered(lane, request, caller)
    assert has_template(rig, caller, request.wire)
    answer = lane.answer(request.wire, caller)
    assert answer is not None
    assert not isinstance(answer, AdmittedRead)
    assert answer[0].startswith(b"HTTP/1.1 206 ")
    return caller


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_no_change_is_answered(rig: Rig, form: Form) -> None:
    lane, tried = fresh_lane(rig), 0
    for method, pairs in (("GET", ASKED), ("GET", ()), ("HEAD", ())):
        request = signed(form, rig.now(), method=method, pairs=pairs)
        caller, what = ClientState("127.0.0.1"), meaning(form, request)
        for _ in range(2):
            assert answered(lane, request, caller)
        for number, (part, mutant) in enumerate(mutants(form, request, 5)):
            if number % max(1, 7 // SCALE) or meaning(form, mutant) == what:
                continue
            assert lane.answer(mutant.wire, caller) is None, (part, mutant)
            tried += 1
        assert has_template(rig, caller, request.wire)
    assert tried > 150


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_refusals_are_the_full_lanes_byte_for_byte(rig: Rig, form: Form) -> None:
    request, client, lane = signed(form, rig.now()), rig.client(), rig.worker.listener.reads.fast_lane
    what, step = meaning(form, request), 151 if form in SIGNERS else 83
    forged = [mutant for _, mutant in mutants(form, request, 6) if meaning(form, mutant) != what][::step]
    assert len(forged) >= 5
    answers = []
    for there in (lane, None):
        rig.worker.listener.reads.fast_lane = there
        said = []
        for mutant in forged:
            async with await client.open() as connection:
                assert (await client.send(request, connection)).body == CONTENT[:100]
                answer = await client.send(mutant, connection)
            assert 400 <= answer.status < 500, mutant
            said.append(socket_response(answer))
        answers.append(said)
    assert answers[0] == answers[1]


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_a_signature_ends_in_the_middle_of_a_connection(rig: Rig, form: Form) -> None:
    now = rig.now()
    moment = [now]
    lane = fresh_lane(rig, lambda: moment[0])
    request = signed(form, now)
    caller = acquainted(rig, lane, request)
    ends = EXPIRES if form[1] == "query" else 900
    for ahead, good in ((ends - 1, True), (ends + 1, False), (0, True), (ends * 9, False)):
        moment[0] = now + ahead
        assert answered(lane, request, caller) == good, ahead
    moment[0] = now
    for ahead in (ends + 5, 2 * ends):  # and of others of its shape, signed then
        later = signed(form, now - ahead)
        assert lane.answer(later.wire, caller) is None
    assert answered(lane, signed(form, now + 1000), caller) == (form in ENDLESS)


def _changed(rig: Rig, keyring: Keyring) -> None:
    gateway = rig.parts.requests.gateway
    gateway.policy = replace(gateway.policy, keyring=keyring)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_another_policy_is_heeded_at_once(rig: Rig, form: Form) -> None:
    lane, request, gateway = fresh_lane(rig), signed(form, rig.now()), rig.parts.requests.gateway
    caller, policy = acquainted(rig, lane, request), gateway.policy
    keys, trainer = policy.keyring, policy.keyring.principals["trainer"]
    rotated = {**keys.secrets, "trainer": SecretKey("trainer", "another-secret")}
    for changed in (
        replace(keys, secrets=rotated),
        replace(keys, secrets={}),
        replace(keys, principals={**keys.principals, "trainer": replace(trainer, grants=())}),
    ):
        _changed(rig, changed)
        assert lane.answer(request.wire, caller) is None
        assert lane.answer(request.wire, ClientState("127.0.0.1")) is None
        gateway.policy = policy
        assert answered(lane, request, caller)
    _changed(rig, replace(keys, secrets=rotated))
    anew = signed(form, rig.now(), Secret("trainer", "another-secret"))
    caller = acquainted(rig, lane, anew)
    assert lane.answer(request.wire, caller) is None
    assert answered(lane, anew, caller)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_prepared_response_ends_with_its_policy(rig: Rig, form: Form) -> None:
    """Also for who has proved himself under the next one, with an object that he still may read."""
    lane, request, keys = fresh_lane(rig), signed(form, rig.now()), rig.parts.requests.gateway.policy.keyring
    acquainted(rig, lane, request)
    grants = (Grant(Pattern("other/**"), frozenset(Access)),)
    trainer = replace(keys.principals["trainer"], grants=grants)
    _changed(rig, replace(keys, principals={**keys.principals, "trainer": trainer}))
    caller = ClientState("127.0.0.1")
    etag = ("If-Match", md5_etag(CONTENT.upper()))
    allowed = ALL_SIGNERS[form](TRAINER, "GET", "/other/closed/key", (ASKED[0], etag), b"", rig.now(), None)
    for _ in range(2):
        assert answered(lane, allowed, caller)
    assert has_template(rig, caller, request.wire)  # what was made under the other policy is still there
    assert not answered(lane, request, caller)


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_session_token_is_part_of_the_signature(rig: Rig, form: Form) -> None:
    guest = Secret("guest", "guest-secret", token="guest-token")
    keys = rig.parts.requests.gateway.policy.keyring
    grants = keys.principals["trainer"].grants

    def of(token: str | None) -> Keyring:
        secrets = {**keys.secrets, "guest": SecretKey("guest", guest.secret, token)}
        return replace(keys, secrets=secrets, principals={**keys.principals, "guest": Principal("guest", grants)})

    _changed(rig, of("guest-token"))
    lane, request = fresh_lane(rig), signed(form, rig.now(), guest)
    caller = acquainted(rig, lane, request)
    for token in (None, "guest-tokem", "guest-token2", "x"):
        assert lane.answer(signed(form, rig.now(), replace(guest, token=token)).wire, caller) is None, token
    for token in (None, "guest-tokem"):
        _changed(rig, of(token))
        assert lane.answer(request.wire, caller) is None, token


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_another_host_is_another_request(rig: Rig, form: Form) -> None:
    """Not every form covers Host. Then it means what it means to the full lane, and no other bucket's bytes."""
    lane, request = fresh_lane(rig), signed(form, rig.now())
    caller = acquainted(rig, lane, request)
    virtual = request.target.replace("/bucket/", "/", 1)
    for host in ("data.example.com", "other.example.com", "bucket.forebay.test", "other.forebay.test", f"x{HOST}"):
        for target in (request.target, virtual):
            wire = replace(request, target=target, pairs=(("Host", host), *request.pairs[1:])).wire
            by_shape = lane.answer(wire, caller)
            assert lane_response(by_shape) == lane_response(fresh_lane(rig).answer(wire, ClientState("127.0.0.1"))), (
                host,
                target,
            )
            assert not isinstance(by_shape, AdmittedRead)
            if by_shape is not None:
                assert by_shape[0].endswith(CONTENT[:100])
                assert "other" not in host


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_a_shape_of_one_is_no_shape_of_another(rig: Rig, form: Form) -> None:
    """Two principals take turns on one connection; one of them may not read it."""
    lane = fresh_lane(rig)
    request, mine = signed(form, rig.now()), signed(form, rig.now(), READER)
    caller = acquainted(rig, lane, request)
    for _ in range(2):
        assert lane.answer(mine.wire, caller) is None
        assert answered(lane, request, caller)
    for theirs in (b"reader", b"trainer"):  # one's words with the other's signature
        wire = (request if theirs == b"reader" else mine).wire
        swapped = wire.replace(b"trainer" if theirs == b"reader" else b"reader", theirs)
        assert swapped != wire
        assert lane.answer(swapped, caller) is None


@pytest.mark.parametrize("form", FORMS, ids=form_name)
async def test_another_query_is_another_request(rig: Rig, form: Form) -> None:
    """In turns, on one connection: each is answered as if it were the only one."""
    lane, caller, now = fresh_lane(rig), ClientState("127.0.0.1"), rig.now()
    queries = ("", "?x-id=GetObject", "?x-amz-checksum-mode=ENABLED") if form in SIGNERS else ("", "?objectMeta")
    answers = set()
    for _ in range(3):
        for query in queries:
            wire = ALL_SIGNERS[form](TRAINER, "HEAD", TARGET + query, (), b"", now, None).wire
            answer = lane_response(lane.answer(wire, caller))
            assert answer == lane_response(fresh_lane(rig).answer(wire, ClientState("127.0.0.1"))), query
            answers.add(str(answer))
    assert len(answers) > (form not in SIGNERS)  # of OSS: metadata, and less of it


async def test_one_forms_shape_reads_no_other_form(rig: Rig) -> None:
    """All forms on one connection, in turns; each is answered, and none by what another signed."""
    lane, caller, now = fresh_lane(rig), ClientState("127.0.0.1"), rig.now()
    requests = {form: signed(form, now) for form in FORMS}
    keys = set()
    for _ in range(3):
        for form, request in requests.items():
            assert answered(lane, request, caller)
            assert has_template(rig, caller, request.wire), form
            assert caller.template is not None
            keys.add(caller.template.key)
    assert len(keys) == len(requests)  # what is ready for one is not what is ready for another
    for form, request in requests.items():
        for other, theirs in requests.items():
            if other == form:
                continue
            for mixed in (replace(request, target=theirs.target), replace(request, pairs=theirs.pairs)):
                wire = mixed.wire
                by_shape, in_full = lane.answer(wire, caller), fresh_lane(rig).answer(wire, ClientState("127.0.0.1"))
                assert lane_response(by_shape) == lane_response(in_full), (form, other)
                assert by_shape is None or wire in {request.wire, theirs.wire} or form[1] == other[1], (form, other)
