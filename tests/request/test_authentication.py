"""Authentication. Open mode: this machine is trusted, the pages in its browsers are not."""

from dataclasses import replace

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.core.errors import S3Error
from forebay.policy.grants import Principal
from forebay.protocol.target import parse_target
from forebay.request.authentication import Keyring, Proof, authenticate, authenticate_form
from forebay.server.gateway_policy import EVERYBODY
from harness.reference_sigv4 import Secret
from security.keyrings import NOW, OWNER, keyring
from security.oss_signers import ALL_SIGNERS
from security.signers import Form, form_name, v2_signature

OPEN = Keyring({}, {}, EVERYBODY, ("forebay.internal",))


def ask(**headers: str) -> str:
    fields = CIMultiDictProxy(CIMultiDict(headers))
    target = parse_target("/bucket/key", headers.get("Host", ""), ("forebay.internal",))
    principal, signed = authenticate(OPEN, "GET", target, fields, 0.0)
    assert signed is None
    return principal.id


def ask_with_form(**headers: str) -> str:
    return authenticate_form(OPEN, CIMultiDictProxy(CIMultiDict(headers)), {}).id


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
    assert ask(Host=host) == ask_with_form(Host=host) == EVERYBODY.id


def test_a_request_that_no_page_caused_is_everybodys() -> None:
    """A browser says so, of what its user has typed; not what opens an object as a page."""
    assert ask(Host="127.0.0.1:9000", **{"Sec-Fetch-Site": " None", "Sec-Fetch-Mode": "no-cors"}) == EVERYBODY.id


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
    for way in (ask, ask_with_form):
        with pytest.raises(S3Error) as refused:
            way(**headers)
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
    for keys, fields in (
        (Keyring({}, {}), {"key": "k"}),
        (ANYBODY, {"policy": "x"}),
        (ANYBODY, {"signature": "x"}),
        (ANYBODY, {"x-amz-security-token": "x"}),
    ):
        with pytest.raises(S3Error):
            authenticate_form(keys, none, fields)


UNKNOWN = Secret("nobody", "owner-secret+/=")
"""A key that nobody has, with a secret that somebody has."""
WRONG = Secret(OWNER.access, "another-secret")


def ask_signed(form: Form, secret: Secret, keys: Keyring) -> Proof:
    request = ALL_SIGNERS[form](secret, "GET", "/bucket/key", (), b"", NOW, None)
    headers = CIMultiDict(request.pairs)
    return authenticate(keys, "GET", parse_target(request.target, headers["Host"], ()), headers, NOW)


@pytest.mark.parametrize("form", ALL_SIGNERS, ids=form_name)
def test_only_the_secret_of_a_key_proves_its_principal(form: Form) -> None:
    keys = keyring()
    proof = ask_signed(form, OWNER, keys)
    assert proof.principal is keys.principals[OWNER.access]
    assert proof.signed is not None
    for secret, code in ((UNKNOWN, "InvalidAccessKeyId"), (WRONG, "SignatureDoesNotMatch")):
        with pytest.raises(S3Error) as refused:
            ask_signed(form, secret, replace(keys, anonymous=Principal("anonymous", ())))
        assert refused.value.code == code
        assert_names_the_key(refused.value, secret)


def assert_names_the_key(refused: S3Error, secret: Secret) -> None:
    """The client is told its key. The log has the id of a configured key, and the beginning of any other: it may be
    a secret in the wrong place."""
    assert refused.log_reason is not None
    if secret == UNKNOWN:
        assert f"The access key {secret.access} does not exist here." in refused.message
        assert refused.log_reason == f"{secret.access[:4] + '...'!r} is no key of auth.keys"
        assert secret.access not in refused.log_reason
    else:
        assert refused.log_reason == f"the request names the key {secret.access}"


def ask_with_signed_form(secret: Secret, keys: Keyring) -> Principal:
    fields = {"policy": "e30=", "awsaccesskeyid": secret.access, "signature": v2_signature(secret, "e30=")}
    return authenticate_form(keys, CIMultiDictProxy(CIMultiDict[str]()), fields)


def test_only_the_secret_of_a_key_proves_its_form() -> None:
    keys = keyring()
    assert ask_with_signed_form(OWNER, keys) is keys.principals[OWNER.access]
    for secret, code in ((UNKNOWN, "InvalidAccessKeyId"), (WRONG, "SignatureDoesNotMatch")):
        with pytest.raises(S3Error) as refused:
            ask_with_signed_form(secret, replace(keys, anonymous=Principal("anonymous", ())))
        assert refused.value.code == code
        assert_names_the_key(refused.value, secret)


def test_a_principal_is_found_by_the_id_of_one_that_there_is_now() -> None:
    anonymous, keys = Principal("anonymous", ()), keyring()
    both = replace(keys, anonymous=anonymous)
    assert both.principal("anonymous") is anonymous
    assert both.principal(OWNER.access) is keys.principals[OWNER.access]
    assert both.principal("gone") is None
    assert keys.principal("anonymous") is None
    assert OPEN.principal(EVERYBODY.id) is EVERYBODY
    assert replace(keys, open_principal=EVERYBODY).principal(OWNER.access) is None  # the mode has changed
