"""Forgery: tens of thousands of changes to validly signed requests, and none is let in.

In memory for number's sake, as the two lanes read them; some of them over a socket, at an object that is a hit. What
would be accepted by chance is not what is looked for here, but what the signature forgot to cover.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from multidict import CIMultiDict

from forebay.protocol.operation_table import SELECTORS
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4_signing import sign_request
from harness.aws_chunked import Framing
from harness.clients import RawClient, RawRequest, path_of
from harness.fake.store import md5_etag
from harness.fake_origin import FakeOrigin
from harness.reference_sigv4 import (
    EMPTY_SHA256,
    SIGNED_CHUNKS,
    SIGNED_CHUNKS_TRAILER,
    UNSIGNED,
    UNSIGNED_CHUNKS_TRAILER,
    Secret,
    request_signature,
    timestamp_of,
)
from harness.rig import TRAINER, Rig
from harness.socket_rig import SocketClient, client_by, socket_setting
from security.head_parsers import ParsedHead, authenticated_target, head_parsers
from security.keyrings import GUEST, NOW, OWNER, keyring
from security.mutants import damaged, meaning, mutants
from security.oss_signers import ALL_SIGNERS, OSS_SIGNERS
from security.scale import SCALE
from security.signers import ENDLESS, EXPIRES, HOST, SIGNERS, Form, Pairs, form_name

LEAST: Final = 20_000
"""Forgeries that `make test` tries at the least, over all forms of a dialect."""


class Case(NamedTuple):
    method: str
    target: str
    pairs: Pairs = ()
    body: bytes = b""
    payload: str | None = None


CASES: Final = (
    Case("GET", "/bucket/a/key"),
    Case("GET", "/bucket/dir%20x/k%C3%A9y?response-content-type=text%2Fplain&versionId=abc"),
    Case("PUT", "/bucket/key", [("Content-Type", "text/plain"), ("x-amz-meta-colour", "red")], b"content"),
    Case("PUT", "/bucket/key?partNumber=1&uploadId=u-1", (), b"content", UNSIGNED),
    Case("DELETE", "/bucket/key"),
    Case("POST", "/bucket?delete=", [("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")], b"<Delete/>"),
    Case("HEAD", "/bucket/%E3%81%82//..%2F", [("x-amz-checksum-mode", "ENABLED")]),
)


OSS_CASES: Final = (
    Case("GET", "/bucket/a%2Fkey"),
    Case("GET", "/bucket/dir%20x/k%C3%A9y?response-content-type=text%2Fplain&versionId=abc", [("Range", "bytes=0-9")]),
    Case("PUT", "/bucket/key", [("Content-Type", "text/plain"), ("x-oss-meta-colour", "red")], b"content"),
    Case("PUT", "/bucket/key?partNumber=1&uploadId=u-1", [("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")], b"content"),
    Case("DELETE", "/bucket/key"),
    Case("GET", "/bucket/?prefix=a%2Fb&list-type=2&continuation-token=t%2B%2F%3D"),
    Case("POST", "/bucket/?delete=&encoding-type=url", [("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")], b"<Delete/>"),
    Case("HEAD", "/bucket/%E3%81%82//..%2F?objectMeta", [("x-oss-range-behavior", "standard"), ("If-Match", '"a"')]),
)


def cases(form: Form) -> tuple[Case, ...]:
    return CASES if form in SIGNERS else OSS_CASES


def signed(form: Form, case: Case, secret: Secret) -> RawRequest:
    return ALL_SIGNERS[form](secret, case.method, case.target, case.pairs, case.body, NOW, case.payload)


def head(request: RawRequest) -> bytes:
    """What a parser of heads is given: framing is another test's business, and a body would only be waited for."""
    pairs = [(name, value) for name, value in request.pairs if name.lower() != "content-length"]
    lines = [f"{request.method} {request.target} HTTP/1.1", *(f"{name}: {value}" for name, value in pairs)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def as_read(heard: ParsedHead) -> RawRequest:
    return RawRequest(heard.method, heard.raw_target, tuple(heard.headers.items()))


def forgeries(form: Form, seed: int) -> Iterator[tuple[str, RawRequest, object]]:
    """The part that was changed, the forgery, and what was meant before. Each digit of a signature is tried in each of
    its places for the first case of a form of S3's, some for the others, and each for all by `make forgery`: who
    compares does not know what was signed."""
    for number, case in enumerate(cases(form)):
        secret = GUEST if number % 3 == 1 else OWNER
        request = signed(form, case, secret)
        what = meaning(form, request)
        few = form not in SIGNERS or (number > 0 and SCALE == 1)
        for part, mutant in mutants(form, request, seed + number, min(SCALE, 40), few_digits=few):
            if meaning(form, mutant) != what:
                yield part, mutant, what


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_signed_request_is_accepted(form: Form) -> None:
    """Else everything below would pass without a reason."""
    with head_parsers() as parsers:
        for case in cases(form):
            for secret in (OWNER, GUEST):
                for name, read in parsers.items():
                    heard = read(head(signed(form, case, secret)))
                    if name == "fast" and heard is None:
                        continue
                    assert heard is not None
                    assert authenticated_target(heard, keyring(), NOW) is not None, (name, case)


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_no_change_is_let_in(form: Form) -> None:
    tried: Counter[str] = Counter()
    keys = keyring()
    with head_parsers() as parsers:
        for number, (part, mutant, what) in enumerate(forgeries(form, 1)):
            wire, judged = head(mutant), set[RawRequest]()
            for name, read in parsers.items():
                if name == "python" and number % 20:
                    continue
                heard = read(wire)
                if heard is None or (request := as_read(heard)) in judged:
                    continue
                judged.add(request)  # parsers that agree leave one verdict
                # aiohttp's parser in Python takes `get` for GET: then that is meant, by everybody from there on.
                if meaning(form, request) != what:
                    assert authenticated_target(heard, keys, NOW) is None, (part, name, wire)
            tried[part] += 1
    assert tried.total() >= LEAST // len(SIGNERS if form in SIGNERS else OSS_SIGNERS), tried
    assert tried.keys() == {"method", "path", "query", "headers", "signature"}


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_bytes_changed_anywhere_change_nothing_or_shut_the_gate(form: Form) -> None:
    """Damage that no list of parts thought of. What is let in all the same must still mean what was signed."""
    rng, keys, passed = random.Random(7), keyring(), 0
    bases = [signed(form, case, OWNER) for case in cases(form)]
    with head_parsers() as parsers:
        for _ in range(1000 * SCALE):
            base = rng.choice(bases)
            wire = damaged(head(base), rng)
            for read in parsers.values():
                heard = read(wire)
                if heard is None or authenticated_target(heard, keys, NOW) is None:
                    continue
                passed += 1
                assert meaning(form, as_read(heard)) == meaning(form, base), wire
    assert passed < 3 * 1000 * SCALE


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_a_signature_is_good_for_its_time_only(form: Form) -> None:
    keys = keyring()
    with head_parsers() as parsers:
        heard = parsers["c"](head(signed(form, CASES[0], OWNER)))
        assert heard is not None
        ends = EXPIRES if form[1] == "query" else 900
        begins = -900
        for ahead in (ends, 0, -1):
            assert authenticated_target(heard, keys, NOW + ahead) is not None
        late = [ends + 1 + 7**n for n in range(10)]
        early = [] if form in ENDLESS else [begins - 1 - 7**n for n in range(10)]
        for ahead in (*late, *early):
            assert authenticated_target(heard, keys, NOW + ahead) is None, ahead


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_a_signature_is_no_other_forms_signature(form: Form) -> None:
    """The same secret, the same moment: what one form's signature says, no other form takes for its own."""
    keys = keyring()
    with head_parsers() as parsers:
        for other in ALL_SIGNERS:
            if other == form:
                continue
            mine, theirs = signed(form, CASES[0], OWNER), signed(other, CASES[0], OWNER)
            path = theirs.target.partition("?")[0]
            query = mine.target.partition("?")[2]
            for target in (theirs.target, f"{path}?{query}" if query else path):
                for pairs in (mine.pairs, theirs.pairs, (*theirs.pairs, *mine.pairs)):
                    heard = parsers["c"](head(RawRequest("GET", target, pairs)))
                    if heard is None or (target, pairs) in {(theirs.target, theirs.pairs), (mine.target, mine.pairs)}:
                        continue
                    if authenticated_target(heard, keys, NOW) is not None:
                        # One credential of the two was there whole, and nothing of the other.
                        assert meaning(form, as_read(heard)) == meaning(form, mine) or meaning(
                            other, as_read(heard)
                        ) == meaning(other, theirs)


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_temporary_credentials_need_their_token(form: Form) -> None:
    """Right signatures all of them, by who has the secret; only one has what belongs to it."""
    keys = keyring()
    with head_parsers() as parsers:
        for secret, good in (
            (GUEST, True),
            (Secret(GUEST.access, GUEST.secret), False),
            (Secret(GUEST.access, GUEST.secret, token="guest-toke"), False),
            (Secret(GUEST.access, GUEST.secret, token="guest-token-"), False),
            (Secret(OWNER.access, OWNER.secret, token="guest-token"), False),
            (Secret(OWNER.access, GUEST.secret, token="guest-token"), False),
        ):
            heard = parsers["c"](head(signed(form, CASES[0], secret)))
            assert heard is not None
            assert (authenticated_target(heard, keys, NOW) is not None) == good, secret


@pytest.mark.parametrize("service", ["s3", "sts", "iam", "S3", "s3-outposts", ""])
def test_a_signature_for_another_service_is_none(service: str) -> None:
    secret = SecretKey(OWNER.access, OWNER.secret)
    added = sign_request("GET", HOST, "/bucket/key", (), {}, EMPTY_SHA256, secret, "us-east-1", NOW, service)
    heard = ParsedHead("GET", "/bucket/key", CIMultiDict({**added, "Host": HOST}))
    assert (authenticated_target(heard, keyring(), NOW) is not None) == (service == "s3")


def test_a_query_that_version_2_leaves_open_makes_no_other_operation() -> None:
    """It covers the sub-resources alone. Any other name is refused, unless it can only narrow a listing or a read."""
    keys = keyring()
    with head_parsers() as parsers:
        for form in (each for each in SIGNERS if each[0] == "SignedV2"):
            request = signed(form, CASES[0], OWNER)
            joint = "&" if "?" in request.target else "?"
            for name in (*SELECTORS - {"list-type"}, "frobnicate", "versionId", "Acl", "ACL", "x-amz-acl", "%61cl"):
                heard = parsers["c"](head(replace(request, target=f"{request.target}{joint}{name}")))
                assert heard is not None
                assert authenticated_target(heard, keys, NOW) is None, name


@pytest.mark.parametrize("left_out", ["host", "x-amz-date", "x-amz-meta-colour", "x-amz-content-sha256"])
def test_a_signature_that_covers_too_little_is_none(left_out: str) -> None:
    """Right as it is, but whoever has it could change the host or what the request does."""
    case, timestamp = CASES[2], timestamp_of(NOW)
    whole = signed(("SignedV4", "header"), case, OWNER)
    pairs = [pair for pair in whole.pairs if pair[0] != "Authorization"]
    for leaving in ({left_out}, set[str]()):
        names = sorted({name.lower() for name, _ in pairs} - {"content-length"} - leaving)
        signature = request_signature(
            OWNER,
            timestamp,
            method=case.method,
            raw_path=case.target,
            raw_query="",
            headers=pairs,
            signed=frozenset(names),
        )
        scope = f"{OWNER.access}/{timestamp[:8]}/{OWNER.region}/s3/aws4_request"
        value = f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={';'.join(names)}, Signature={signature}"
        with head_parsers() as parsers:
            heard = parsers["c"](head(RawRequest(case.method, case.target, (*pairs, ("Authorization", value)))))
            assert heard is not None
            assert (authenticated_target(heard, keyring(), NOW) is None) == bool(leaving)


@pytest.mark.parametrize("lane", ["fast", "full", "channel"])
@pytest.mark.parametrize("key", ["hit", "missing"])
async def test_no_change_is_answered_over_a_socket(tmp_path: Path, lane: str, key: str) -> None:
    server = socket_setting(tmp_path)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, server=server) as rig:
        content = b"nobody else may see this" * 10
        origin.store.put("bucket", "hit", content)
        client = client_by(lane, rig)
        assert (await client.request("GET", path_of("bucket", "hit"))).body == content
        await client.request("GET", path_of("bucket", "hit"))
        origin.log.reset()
        target = path_of("bucket", key)
        url = client.presign("GET", target)
        requests = {
            ("SignedV4", "header"): client.sign("GET", target),
            ("SignedV4", "query"): RawRequest("GET", url, client.sign("GET", target).pairs[:1]),
            **{form: sign(TRAINER, "GET", target, (), b"", rig.now(), None) for form, sign in OSS_SIGNERS.items()},
        }
        tried = 0
        for form, request in requests.items():
            what = meaning(form, request)
            step = 11 if lane != "full" and form in SIGNERS else 37
            for number, (_, mutant) in enumerate(mutants(form, request, 3)):
                if number % step or meaning(form, mutant) == what:
                    continue
                answer = await client.send(mutant)
                assert 400 <= answer.status < 500, mutant
                assert content[:24] not in answer.body
                tried += 1
        assert tried > 50
        assert [seen for seen in origin.log.requests if seen.key is not None] == []


async def test_no_changed_batch_is_answered_by_a_channel(tmp_path: Path) -> None:
    server = socket_setting(tmp_path)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path, server=server) as rig:
        origin.store.put("bucket", "hit", b"nobody else may see this" * 10)
        client, target, body = SocketClient(rig), "/bucket/.forebay/batch", b'{"keys":["hit"]}'
        tried = 0
        for form, sign in {**SIGNERS, **OSS_SIGNERS}.items():
            request = sign(TRAINER, "POST", target, (), body, rig.now(), None)
            what = meaning(form, request)
            if await client.is_answered(request):
                other = await client.is_answered(replace(request, body=b'{"keys":["her"]}'))
                assert other is (form != ("SignedV4", "header")), "the form that signs the body here"
            for number, (_, mutant) in enumerate(mutants(form, request, 3)):
                if number % 17 == 0 and meaning(form, mutant) != what:
                    assert not await client.is_answered(mutant), mutant
                    tried += 1
        assert client.answered >= 2
        assert tried > 50
        client.close()


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
async def test_unsigned_headers_remove_no_signed_header(tmp_path: Path, form: Form) -> None:
    """`Connection` names headers that stay behind, and no signature covers it."""
    condition = ("If-None-Match", "*") if form in SIGNERS else ("x-oss-forbid-overwrite", "true")
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "key", b"the first")
        signed = ALL_SIGNERS[form](TRAINER, "PUT", "/bucket/key", [condition], b"another", rig.now(), None)
        for named_there in (
            "If-None-Match",
            "x-oss-forbid-overwrite",
            "close, if-none-match",
            "keep-alive, x-amz-date",
        ):
            answer = await rig.client().send(replace(signed, pairs=(*signed.pairs, ("Connection", named_there))))
            assert answer.status in {409, 412}, (named_there, answer)
            kept = origin.store.current("bucket", "key")
            assert kept is not None
            assert kept.etag == md5_etag(b"the first")


@pytest.mark.parametrize("kind", ["hash", SIGNED_CHUNKS, SIGNED_CHUNKS_TRAILER, UNSIGNED_CHUNKS_TRAILER])
async def test_no_other_body_is_stored(tmp_path: Path, kind: str) -> None:
    """Every byte of the body and of its framing that is changed: nothing comes into being at the origin."""
    rng = random.Random(5)
    async with FakeOrigin() as origin, Rig(origin.endpoint, origin.secret, tmp_path) as rig:
        origin.store.put("bucket", "other", b"")
        client = RawClient(rig.endpoint, TRAINER)
        content = bytes(rng.randrange(256) for _ in range(9000))
        framing = None if kind == "hash" else Framing(kind, size=8192)
        honest = client.sign("PUT", "/bucket/new", (), content, framing=framing)
        places = {0, len(honest.body) - 3, *(rng.randrange(len(honest.body)) for _ in range(60 * SCALE))}
        for mark in (b"chunk-signature=", b"x-amz-checksum", b"trailer-signature:"):
            if (found := honest.body.find(mark)) >= 0:
                places |= {found, found + len(mark), found + len(mark) + 5}
        for place in sorted(places):
            spoilt = bytearray(honest.body)
            spoilt[place] ^= 1 << rng.randrange(7)
            if spoilt.lower() == honest.body.lower():
                continue
            answer = await client.send(RawRequest(honest.method, honest.target, honest.pairs, bytes(spoilt)))
            assert answer.status >= 400 or answer.aborted, place
            if origin.store.current("bucket", "new") is not None:
                # A spelling of the framing that means the same (another case of a hex digit) is not another body.
                pytest.fail(f"stored with byte {place} changed")
        assert (await client.send(honest)).status == 200
