"""Unsigned heads: a head that differs from an admitted one in its target alone is admitted as if it had been parsed."""

from dataclasses import replace

import pytest

from forebay.core.errors import S3Error
from forebay.policy.grants import Grant, Principal
from forebay.policy.path_patterns import Pattern
from forebay.policy.rules import Rule, Rules
from forebay.protocol.operations import Access
from forebay.protocol.target import parse_target
from forebay.request.admission import Admission, GatewayPolicy, admit
from forebay.request.authentication import Keyring
from forebay.server.fastpath.request_head import MAX_HEAD_SIZE, parse_request_head
from forebay.server.fastpath.unsigned_head import UnsignedHead

RULES = Rules((Rule("*/open/direct/**", accelerate=False),))
NARROW = Principal("anonymous", (Grant(Pattern("*/open/**"), frozenset({Access.READ})),))
WIDE = Principal("open", (Grant(Pattern("**"), frozenset({Access.READ, Access.WRITE, Access.LIST})),))
ANONYMOUS = GatewayPolicy(Keyring({}, {}, anonymous=NARROW), RULES, ("s3.local",), {})
OPEN = GatewayPolicy(Keyring({}, {}, WIDE, trusted_hosts=("s3.local",)), RULES, ("s3.local",), {})
FIELDS = "Host: 127.0.0.1:9000\r\nUser-Agent: wrk"
HOSTED = "Host: b.s3.local\r\nUser-Agent: wrk"


def head_of(target: str, fields: str = FIELDS, method: str = "GET") -> bytes:
    return f"{method} {target} HTTP/1.1\r\n{fields}\r\n\r\n".encode()


def in_full(data: bytes, policy: GatewayPolicy) -> Admission | None:
    """The admission of a head that is parsed; None: it is refused."""
    head = parse_request_head(data)
    if head is None:
        return None
    try:
        target = parse_target(head.raw_target, head.headers["Host"], policy.domains, policy.cnames)
        return admit(policy, head.method, target, head.headers, 0.0)
    except S3Error:
        return None


def learn(data: bytes, policy: GatewayPolicy) -> UnsignedHead | None:
    head, admission = parse_request_head(data), in_full(data, policy)
    assert head is not None
    assert admission is not None
    return UnsignedHead.learn(data, head.headers, admission)


def known(policy: GatewayPolicy, fields: str = FIELDS, target: str = "/b/open/first") -> UnsignedHead:
    unsigned = learn(head_of(target, fields), policy)
    assert unsigned is not None
    return unsigned


@pytest.mark.parametrize("policy", [ANONYMOUS, OPEN], ids=["anonymous", "open"])
@pytest.mark.parametrize(
    "key", ["open/k", "open/direct/k", "open/a%2Fb", "open/%C3%A4", "open//..", "open/a+b", "open/k?"]
)
@pytest.mark.parametrize("hosted", [False, True])
def test_its_admission_is_that_of_a_parsed_head(policy: GatewayPolicy, key: str, *, hosted: bool) -> None:
    fields, start = (HOSTED, "/") if hosted else (FIELDS, "/b/")
    data = head_of(start + key, fields)
    admitted, expected = known(policy, fields, f"{start}open/first").admit(data, policy), in_full(data, policy)
    assert admitted is not None
    assert expected is not None
    raw_target, headers, admission = admitted
    assert (raw_target, [*headers.items()]) == (start + key, [*expected.headers.items()])
    assert admission._replace(permit=expected.permit, headers=expected.headers) == expected
    assert admission.name is not None
    assert admission.permit.covers(admission.name)
    assert (admission.permit.principal, admission.permit.access) == (expected.permit.principal, expected.permit.access)


@pytest.mark.parametrize("key", ["closed/k", "open", "%2e/open/k", "open%2Fk/../../closed", ".forebay/plans/p"])
def test_a_key_that_is_not_granted_is_not_admitted(key: str) -> None:
    data = head_of(f"/b/{key}")
    expected = in_full(data, ANONYMOUS)
    admitted = known(ANONYMOUS).admit(data, ANONYMOUS)
    assert (admitted is None) == (expected is None)
    if admitted is not None and expected is not None:
        assert admitted[2].name == expected.name


@pytest.mark.parametrize(
    "data",
    [
        head_of("/other/open/k"),
        head_of("/b/open/k?versionId=1"),
        head_of("/b/open/k?acl"),
        head_of("/b/.forebay/plans/p"),
        head_of("/b/"),
        head_of("/b"),
        head_of("/"),
        head_of("/b/open/%zz"),
        head_of("/b/open/#k"),
        head_of("/b/open/\u00e4"),
        head_of("/b/open/k x"),
        head_of("/b/open/k HTTP/1.1\r\nX: y"),
        head_of("/b/open/k\r\nSec-Fetch-Mode: navigate"),
        head_of("http://b/open/k"),
        head_of("/b/open/k", method="HEAD"),
        head_of("/b/open/k", FIELDS + "\r\nSec-Fetch-Site: cross-site"),
        head_of("/b/open/k", FIELDS + "\r\nOrigin: http://page"),
        head_of("/b/open/k", FIELDS + "\r\nRange: bytes=0-1"),
        head_of("/b/open/k", FIELDS.replace("127.0.0.1", "evil.example")),
        head_of("/b/open/k", FIELDS.replace("User-Agent", "User-agent")),
        head_of("/b/open/k", "User-Agent: wrk\r\nHost: 127.0.0.1:9000"),
        head_of("/b/open/" + "k" * MAX_HEAD_SIZE),
        head_of("/b/open/" + "k" * 1025),
        b"GET" + head_of("")[4:],
        head_of("/b/open/k") + b"\r\n\r\n",
        head_of("/b/open/k")[:-2],
    ],
)
def test_any_other_head_is_parsed(data: bytes) -> None:
    assert known(OPEN).admit(data, OPEN) is None


def test_another_policy_admits_in_full() -> None:
    unsigned, data = known(OPEN), head_of("/b/open/k")
    assert unsigned.admit(data, OPEN) is not None
    assert unsigned.admit(data, replace(OPEN)) is None


@pytest.mark.parametrize(
    "data",
    [
        head_of("/b/open/k", method="HEAD"),
        head_of("/b/open/k?versionId=1"),
        head_of("/b/open/k?x-id=GetObject"),
        head_of("/b/open/k", FIELDS + "\r\nRange: bytes=0-1"),
        head_of("/b/open/k", FIELDS + "\r\nAuthorization: AWS4-HMAC-SHA256 Credential=x, Signature=y"),
        head_of("/b/open/k", FIELDS + "\r\nx-oss-request-payer: requester"),
    ],
)
def test_only_a_plain_head_is_learnt(data: bytes) -> None:
    assert learn(data, OPEN) is None
