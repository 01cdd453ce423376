"""Heads of small PUTs: read by a template as if parsed in full, and proven by their own signature alone."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

import pytest

from forebay.core.errors import S3Error
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rules
from forebay.protocol.exchange import SMALL_BODY
from forebay.protocol.operations import Access
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.verified_signature import SignedV4
from forebay.protocol.target import Target, parse_target
from forebay.request.admission import Admission, GatewayPolicy, admit
from forebay.request.authentication import Keyring, Proof
from forebay.server.fastpath.request_head import UploadHead, parse_upload_head
from forebay.server.fastpath.upload_heads import KnownUpload, UploadHeads
from harness.clients import RawRequest
from harness.reference_sigv4 import Secret
from security.keyrings import NOW
from security.oss_signers import ALL_SIGNERS
from security.signers import Form, Pairs, form_name
from server.fastpath.admitted import HEADER

KEYS: Final = {name: Secret(name, f"{name}-secret") for name in ("one", "two")}
PRINCIPALS: Final = {name: Principal(name, (Grant(Pattern("**"), frozenset({Access.WRITE})),)) for name in KEYS}
POLICY: Final = GatewayPolicy(
    Keyring({name: SecretKey(name, f"{name}-secret") for name in KEYS}, PRINCIPALS), Rules(()), (), {}
)
FIELDS: Final = (
    ("User-Agent", "Boto3/1.40"),
    ("Content-Type", "text/plain"),
    ("x-amz-meta-mtime", "1795867200.5"),
    ("amz-sdk-invocation-id", "a63c17d7"),
    ("Expect", "100-continue"),
)


def put(
    body: bytes = b"body",
    pairs: Pairs = FIELDS,
    *,
    path: str = "/b/key",
    key: str = "one",
    form: Form = HEADER,
    now: float = NOW,
    payload: str | None = None,
) -> RawRequest:
    return ALL_SIGNERS[form](KEYS[key], "PUT", path, pairs, body, now, payload)


def head_data(request: RawRequest) -> bytes:
    return request.wire[: len(request.wire) - len(request.body)]


def admitted(head: UploadHead) -> tuple[Target, Admission]:
    target = parse_target(head.raw_target, head.headers["Host"], ())
    return target, admit(POLICY, "PUT", target, head.headers, NOW)


def learnt(*requests: RawRequest) -> UploadHeads:
    heads = UploadHeads()
    for request in requests:
        known = heads.read(head_data(request), POLICY)
        assert known is not None
        known.learn(*admitted(known.head))
    return heads


def known_by(heads: UploadHeads, data: bytes) -> KnownUpload:
    known = heads.read(data, POLICY)
    assert known is not None
    return known


def proof_of(heads: UploadHeads, data: bytes, policy: GatewayPolicy = POLICY, now: float = NOW) -> Proof | None:
    known = known_by(heads, data)
    target = parse_target(known.head.raw_target, known.head.headers["Host"], ())
    return known.prove(policy, target, now)


def fields_of(head: UploadHead | None) -> tuple[str, Sequence[tuple[str, str]], int, bool] | None:
    return None if head is None else (head.raw_target, [*head.headers.items()], head.length, head.expects_continue)


@pytest.mark.parametrize("name", [name for name, _ in FIELDS] + ["nothing"])
def test_a_head_is_read_as_if_parsed_and_authenticated(name: str) -> None:
    values = {"Content-Type": "video/mp4", "x-amz-meta-mtime": "7", "amz-sdk-invocation-id": "b"}
    pairs = tuple((each, values.get(each, value)) if each == name else (each, value) for each, value in FIELDS)
    data = head_data(put(b"another body", pairs, path="/b/other", now=NOW + 5))
    heads = learnt(put())
    assert fields_of(known_by(heads, data).head) == fields_of(parse_upload_head(data, SMALL_BODY))
    proof = proof_of(heads, data)
    assert proof is not None
    assert proof.principal == PRINCIPALS["one"]
    _, full = admitted(known_by(UploadHeads(), data).head)
    assert isinstance(full.signed, SignedV4)
    assert isinstance(proof.signed, SignedV4)
    assert proof.signed == full.signed._replace(text=proof.signed.text)
    assert proof.signed.payload == sha256(b"another body").hexdigest()


def test_any_changed_byte_is_read_as_if_parsed_and_proves_nothing() -> None:
    data, heads = head_data(put(b"other", path="/b/another")), learnt(put())
    assert proof_of(heads, data) is not None
    for at in range(len(data)):
        for byte in b"\0\r\n \t:;0aZ~\x80":
            changed = data[:at] + bytes([byte]) + data[at + 1 :]
            known = heads.read(changed, POLICY)
            assert fields_of(known.head if known is not None else None) == fields_of(
                parse_upload_head(changed, SMALL_BODY)
            ), (at, byte)
            if known is None or changed == data:
                continue
            try:
                target = parse_target(known.head.raw_target, known.head.headers["Host"], ())
            except S3Error:
                continue
            if known.prove(POLICY, target, NOW) is not None:
                _, admission = admitted(known.head)  # a header that is not signed: admitted in full as well
                assert isinstance(admission.signed, SignedV4)


def test_a_longer_or_shorter_head_is_read_as_if_parsed() -> None:
    data, heads = head_data(put(b"other")), learnt(put())
    for at in range(len(data) + 1):
        for changed in (data[:at], data[:at] + b"0" + data[at:], data[:at] + data[at + 1 :], data[:at] + b"\r\n\r\n"):
            known = heads.read(changed, POLICY)
            assert fields_of(known.head if known is not None else None) == fields_of(
                parse_upload_head(changed, SMALL_BODY)
            )


@pytest.mark.parametrize(
    "length", [b"0", b"00", b"5 ", b"05", b"65536", b"65537", b"+5", b"-5", b"99999999999999999999"]
)
def test_a_length_is_read_as_if_parsed(length: bytes) -> None:
    data = head_data(put(b"other"))
    changed = data.replace(b"ontent-Length: 5\r\n", b"ontent-Length: " + length + b"\r\n")
    changed = changed.replace(b"ontent-length: 5\r\n", b"ontent-length: " + length + b"\r\n")
    assert changed != data
    known = learnt(put()).read(changed, POLICY)
    assert fields_of(known.head if known is not None else None) == fields_of(parse_upload_head(changed, SMALL_BODY))


def test_a_signature_proves_its_own_request_alone() -> None:
    heads = learnt(put(b"first"), put(b"first", key="two"))
    first, second = head_data(put(b"first")), head_data(put(b"other", path="/b/other"))
    signature = first.partition(b"Signature=")[2][:64]
    assert proof_of(heads, first) is not None
    assert proof_of(heads, second) is not None
    assert proof_of(heads, second.replace(second.partition(b"Signature=")[2][:64], signature)) is None
    right, wrong = (sha256(body).hexdigest().encode() for body in (b"first", b"other"))
    assert proof_of(heads, first.replace(right, wrong)) is None, "the hash of another body"
    assert proof_of(heads, first.replace(b"/b/key", b"/b/kez")) is None
    assert proof_of(heads, first.replace(b"Credential=one/", b"Credential=two/")) is None, "another key"
    assert proof_of(heads, first, now=NOW + 901) is None
    assert proof_of(heads, first.replace(b"/b/key", b"/b/key?acl")) is None
    proofs = [proof_of(heads, head_data(put(b"third", key=key))) for key in KEYS]
    assert [proof.principal for proof in proofs if proof is not None] == [*PRINCIPALS.values()]


def test_a_payload_may_be_unsigned_where_its_header_says_so() -> None:
    unsigned = put(b"y", payload="UNSIGNED-PAYLOAD")
    for heads in (learnt(put()), learnt(put(b"x", payload="UNSIGNED-PAYLOAD"))):
        proof = proof_of(heads, head_data(unsigned))
        assert proof is not None
        assert isinstance(proof.signed, SignedV4)
        assert proof.signed.payload == "UNSIGNED-PAYLOAD"
        hashed = head_data(unsigned).replace(b"UNSIGNED-PAYLOAD", sha256(b"y").hexdigest().encode())
        assert proof_of(heads, hashed) is None


def test_under_another_policy_nothing_is_proven() -> None:
    heads, data, other = learnt(put()), head_data(put(b"other")), replace(POLICY)
    assert proof_of(heads, data, other) is None
    known = heads.read(data, other)
    assert known is not None
    assert known.prove(other, parse_target("/b/key", "b", ()), NOW) is None


@pytest.mark.parametrize("form", [form for form in ALL_SIGNERS if form != HEADER], ids=form_name)
def test_other_signatures_have_no_template(form: Form) -> None:
    heads = UploadHeads()
    known = heads.read(head_data(put(form=form, pairs=())), POLICY)
    if known is None:
        return
    known.learn(*admitted(known.head))
    assert proof_of(heads, head_data(put(b"other", form=form, pairs=()))) is None


def test_signed_chunks_have_no_template() -> None:
    chunked = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
    pairs = (("x-amz-decoded-content-length", "4"),)
    heads = learnt(put(pairs=pairs, payload=chunked))
    assert proof_of(heads, head_data(put(b"other", pairs, payload=chunked))) is None
    hashed = learnt(put(pairs=pairs))
    assert proof_of(hashed, head_data(put(b"other", pairs, payload=chunked))) is None


def test_heads_that_never_match_stop_making_templates() -> None:
    heads = learnt(*(put(pairs=(("User-Agent", f"{number}"),)) for number in range(100)))
    made = [number for number in range(100) if proof_of(heads, head_data(put(pairs=(("User-Agent", f"{number}"),))))]
    assert len(made) < 30
