"""Admission: the order of its steps, what it gives, and that nothing skips it."""

import time
from dataclasses import replace
from typing import Any

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.core.request_record import RequestRecord, Step
from forebay.origin.credentials import ANONYMOUS
from forebay.origin.origin_identity import OriginIdentity
from forebay.policy.grants import Grant, Principal
from forebay.policy.origin_routes import OriginRoutes
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rule, Rules
from forebay.protocol.operations import Access
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.verified_signature import SignedOss, SignedV4
from forebay.protocol.target import parse_target
from forebay.request.admission import Admission, GatewayPolicy, admit, admit_form
from forebay.request.authentication import Keyring, Proof
from harness.reference_sigv4 import Secret
from security.keyrings import NOW
from security.oss_signers import ALL_SIGNERS
from security.signers import SIGNERS, Form, form_name

KEY = Secret("reader", "reader-secret")
READER = Principal("reader", (Grant(Pattern("*/open/**"), frozenset({Access.READ, Access.WRITE})),))
POLICY = GatewayPolicy(
    Keyring({"reader": SecretKey("reader", "reader-secret")}, {"reader": READER}),
    Rules((Rule("*/open/direct/**", accelerate=False),)),
    (),
    {},
)
OPEN = GatewayPolicy(Keyring({}, {}, READER), Rules(()), (), {})
Pairs = tuple[tuple[str, str], ...]


def admit_signed(
    target: str, method: str = "GET", form: Form = ("SignedV4", "header"), pairs: Pairs = (), *, tamper: bool = False
) -> tuple[Admission | str, RequestRecord]:
    """The admission of a signed request, or the code of the error, and what was recorded."""
    request = ALL_SIGNERS[form](KEY, method, target, pairs, b"", NOW, None)
    headers = CIMultiDict(request.pairs)
    if tamper:
        headers["Authorization"] = headers["Authorization"][:-1] + "!"
    record = RequestRecord(method, 0.0, "id")
    try:
        parsed = parse_target(request.target, headers["Host"], ())
        return admit(POLICY, method, parsed, headers, NOW, record=record), record
    except S3Error as error:
        return error.code, record


def admit_bare(headers: dict[str, str], signed: Any) -> Admission:
    """The admission of a request whose signature is verified already."""
    target = parse_target("/b/open/k", "h", ())
    return admit(POLICY, "GET", target, CIMultiDict(headers), NOW, proof=Proof(READER, signed))


def bare(kind: type[tuple[Any, ...]]) -> Any:
    """A verified signature that nobody reads."""
    return tuple.__new__(kind, ())


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_an_admission_holds_the_result_of_each_step(form: Form) -> None:
    admission, record = admit_signed("/b/open/k", form=form)
    assert isinstance(admission, Admission)
    assert (admission.policy, admission.method, admission.target.query) == (POLICY, "GET", ())
    assert (admission.principal, admission.identity) == (READER, None)
    assert (admission.operation.name, admission.operation.is_plain_read) == ("GetObject", True)
    assert admission.permit.covers(ObjectName("b", "open/k"))
    assert not admission.permit.covers(ObjectName("b", "open/other"))
    assert (admission.oss_request is None) == (form in SIGNERS)
    assert isinstance(admission.signed, SignedOss) == (form not in SIGNERS)
    assert admission.is_accelerated
    assert (record.step, record.principal, record.operation, record.rule) == ("rule", "reader", "GetObject", "default")


def test_rules_decide_whether_a_cache_may_answer() -> None:
    admission, record = admit_signed("/b/open/direct/k")
    assert isinstance(admission, Admission)
    assert not admission.is_accelerated
    assert admission.variant is not None
    assert record.rule == "*/open/direct/**"


@pytest.mark.parametrize(
    ("method", "target", "pairs", "tamper", "code", "step", "principal"),
    [
        ("PATCH", "/b/closed/k?acl&acl", (), True, "SignatureDoesNotMatch", "authenticate", ""),
        ("GET", "/b/closed/k", (), True, "SignatureDoesNotMatch", "authenticate", ""),
        ("PATCH", "/b/closed/k", (), False, "MethodNotAllowed", "authorise", "reader"),
        ("GET", "/b/closed/k?acl&acl", (), False, "InvalidArgument", "authorise", "reader"),
        ("GET", "/b/closed/k", (), False, "AccessDenied", "authorise", "reader"),
        ("PUT", "/b/open/k", (("x-amz-copy-source", "/b/closed/k"),), False, "AccessDenied", "authorise", "reader"),
        ("PUT", "/b/open/k", (("x-amz-copy-source", "?"),), False, "InvalidArgument", "authorise", "reader"),
    ],
)
def test_the_first_step_that_refuses_names_the_error(
    method: str, target: str, pairs: Pairs, tamper: bool, code: str, step: Step, principal: str
) -> None:
    refused, record = admit_signed(target, method, pairs=pairs, tamper=tamper)
    assert (refused, record.step, record.principal, record.rule) == (code, step, principal, "")


def test_an_unsigned_request_is_denied_before_all_else() -> None:
    with pytest.raises(S3Error, match="AccessDenied"):
        admit(POLICY, "PATCH", parse_target("/b/open/k?acl&acl", "h", ()), CIMultiDict(), NOW)


def test_a_proof_replaces_the_signature_and_no_other_step() -> None:
    assert admit_bare({}, None).permit.principal == "reader"
    with pytest.raises(S3Error, match="AccessDenied"):
        admit(POLICY, "GET", parse_target("/b/closed/k", "h", ()), CIMultiDict(), NOW, proof=Proof(READER, None))


def test_open_mode_still_asks_the_grants() -> None:
    headers = CIMultiDict({"Host": "localhost"})
    assert admit(OPEN, "GET", parse_target("/b/open/k", "localhost", ()), headers, NOW).signed is None
    with pytest.raises(S3Error, match="AccessDenied"):
        admit(OPEN, "GET", parse_target("/b/closed/k", "localhost", ()), headers, NOW)


def test_a_form_is_authorised_as_a_put_object() -> None:
    target, headers = parse_target("/b/open/k", "h", ()), CIMultiDict({"Content-Length": "1"})
    admission = admit_form(POLICY, READER, target, headers)
    assert (admission.operation.name, admission.method, admission.signed) == ("PutObject", "PUT", None)
    assert admission.permit.covers(target.name)
    with pytest.raises(S3Error, match="AccessDenied"):
        admit_form(POLICY, READER, parse_target("/b/closed/k", "h", ()), headers)


def test_a_form_reaches_no_resource() -> None:
    everywhere = Principal("all", (Grant(Pattern("**"), frozenset(Access)),))
    with pytest.raises(S3Error, match="NotImplemented"):
        admit_form(POLICY, everywhere, parse_target("/b/.forebay/plans/p", "h", ()), CIMultiDict())


def test_a_credential_is_used_at_the_origins_that_it_names() -> None:
    routes = OriginRoutes((("one", ("b",)),), "rest")
    named, all_of_them = OriginIdentity("named", ANONYMOUS, ("one",)), OriginIdentity("all", ANONYMOUS)
    keys = replace(POLICY.keyring, origin_identities={"named": named, "all": all_of_them})
    policy = replace(POLICY, keyring=keys, routes=routes)
    assert [policy.identity_of("named", bucket) for bucket in ("b", "c", None)] == [named, None, named]
    assert [policy.identity_of("all", bucket) for bucket in ("b", "c", None)] == [all_of_them] * 3
    assert policy.identity_of("reader", "b") is None


def test_an_origin_is_oss_for_its_own_buckets() -> None:
    routes = OriginRoutes((("one", ("b",)),), "rest")
    for positions, expected in (
        (set(), [False] * 3),
        ({0}, [True, False, False]),
        ({1}, [False, True, False]),
        ({0, 1}, [True] * 3),
    ):
        policy = replace(POLICY, routes=routes, oss_origins=frozenset(positions))
        assert [policy.has_oss_origin(bucket) for bucket in ("b", "c", None)] == expected


@pytest.mark.parametrize(
    ("target", "own"),
    [
        ("/b/open/k", False),
        ("/b/.forebay/plans/p", True),
        ("/b?list-type=2&prefix=.forebay/", True),
        ("/b?list-type=2&prefix=open/", False),
        ("/b/open/k?prefix=.forebay/", False),
        ("/b?location&prefix=.forebay/", False),
        ("/b?list-type=2", False),
    ],
)
def test_what_is_about_a_resource_is_told_by_its_key_or_prefix(target: str, own: bool) -> None:
    everything = Principal("reader", (Grant(Pattern("**"), frozenset(Access)),))
    parsed = parse_target(target, "h", ())
    admission = admit(POLICY, "GET", parsed, CIMultiDict(), NOW, proof=Proof(everything, None))
    assert admission.is_for_resource is own


def test_headers_of_a_presigned_url_are_hoisted() -> None:
    admission, _ = admit_signed("/b/open/k?x-amz-meta-colour=red", "PUT", ("SignedV4", "query"))
    assert isinstance(admission, Admission)
    assert (admission.target.query, admission.headers["x-amz-meta-colour"]) == ((), "red")


def test_a_request_is_read_in_the_dialect_it_is_signed_in() -> None:
    assert admit_bare({"Authorization": "OSS a:b"}, bare(SignedOss)).oss_request is not None
    assert admit_bare({"x-oss-date": str(time.time())}, None).oss_request is not None
    assert admit_bare({"Authorization": "AWS4-HMAC-SHA256 a"}, bare(SignedV4)).oss_request is None
    assert admit_bare({}, None).oss_request is None


@pytest.mark.parametrize(
    ("authorization", "signed"), [("OSS a:b", SignedV4), ("AWS4-HMAC-SHA256 a", SignedOss), ("OSS2 a", SignedV4)]
)
def test_a_request_signed_in_the_other_dialect_is_refused(authorization: str, signed: type[tuple[Any, ...]]) -> None:
    with pytest.raises(S3Error, match="dialect"):
        admit_bare({"Authorization": authorization}, bare(signed))
