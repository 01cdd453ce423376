"""Authentication without signatures. Open mode: this machine is trusted, the pages in its browsers are not."""

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.policy.access import Principal
from forebay.protocol.target import parse_target
from forebay.request.authentication import Keyring, authenticate, authenticate_form
from forebay.server.gateway_policy import EVERYBODY

OPEN = Keyring({}, {}, EVERYBODY, ("forebay.internal",))


def ask(**headers: str) -> str:
    fields = CIMultiDictProxy(CIMultiDict(headers))
    target = parse_target("/bucket/key", headers.get("Host", ""), ("forebay.internal",))
    principal, signed = authenticate(OPEN, "GET", target, fields, 0.0)
    assert signed is None
    assert authenticate_form(OPEN, fields, {}) is principal
    return principal.id


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1:9000",
        "127.0.0.1",
        "[::1]:9000",
        "[::1]",
        "localhost:9000",
        "bucket.localhost:9000",
        "bucket.forebay.internal",
        "FOREBAY.internal:80",
    ],
)
def test_programs_of_this_machine_are_everybody(host: str) -> None:
    assert ask(Host=host) == EVERYBODY.id


def test_programs_with_fetch_of_their_own_are_everybody() -> None:
    """Node's fetch sends this header of browsers, and no other (https://github.com/nodejs/undici)."""
    assert ask(Host="127.0.0.1:9000", **{"Sec-Fetch-Mode": "cors"}) == EVERYBODY.id


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example:9000"},
        {"Host": "127.0.0.1.evil.example"},
        {"Host": "localhost.evil.example"},
        {"Host": "forebay.internal.evil.example"},
        {"Host": "notforebay.internal"},
        {"Host": "127.0.0.1:9000", "Origin": "https://evil.example"},
        {"Host": "127.0.0.1:9000", "Origin": "null"},
        {"Host": "127.0.0.1:9000", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"Host": "localhost:9000", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Host": "localhost:9000", "Sec-Fetch-Mode": " Navigate"},
        {"Host": "localhost:9000", "sec-fetch-site": "None, cross-site"},
    ],
    ids=str,
)
def test_web_pages_are_nobody(headers: dict[str, str]) -> None:
    with pytest.raises(S3Error) as refused:
        ask(**headers)
    assert refused.value.code == "AccessDenied"


ANYBODY = Keyring({}, {}, anonymous=Principal("anonymous", ()))


def ask_anonymously(raw_target: str, headers: dict[str, str], keyring: Keyring = ANYBODY) -> str:
    fields = CIMultiDictProxy(CIMultiDict(headers))
    principal, signed = authenticate(keyring, "GET", parse_target(raw_target, "", ()), fields, 0.0)
    assert signed is None
    return principal.id


@pytest.mark.parametrize(
    "headers", [{}, {"Origin": "https://site.example"}, {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}], ids=str
)
def test_request_without_a_signature_is_anonymous(headers: dict[str, str]) -> None:
    assert ask_anonymously("/bucket/key?versionId=1", headers) == "anonymous"
    with pytest.raises(S3Error, match="AccessDenied"):
        ask_anonymously("/bucket/key?versionId=1", headers, Keyring({}, {}))


@pytest.mark.parametrize(
    ("raw_target", "headers"),
    [
        ("/b/k?Expires=9", {}),
        ("/b/k?X-Amz-Security-Token=t", {}),
        ("/b/k?x-amz-signature=0", {}),
        ("/b/k?X-OSS-Signature=0", {}),
        ("/b/k?Authorization=AWS%20trainer:x", {}),
        ("/b/k", {"X-Amz-Security-Token": "t"}),
        ("/b/k", {"security-token": "t"}),
    ],
)
def test_request_with_part_of_a_signature_is_nobodys(raw_target: str, headers: dict[str, str]) -> None:
    with pytest.raises(S3Error, match="AccessDenied"):
        ask_anonymously(raw_target, headers)


def test_form_without_policy_and_signature_is_anonymous() -> None:
    none = CIMultiDictProxy(CIMultiDict[str]())
    assert authenticate_form(ANYBODY, none, {"key": "k"}).id == "anonymous"
    for keyring, fields in (
        (Keyring({}, {}), {"key": "k"}),
        (ANYBODY, {"policy": "x"}),
        (ANYBODY, {"signature": "x"}),
        (ANYBODY, {"x-amz-security-token": "x"}),
    ):
        with pytest.raises(S3Error):
            authenticate_form(keyring, none, fields)
