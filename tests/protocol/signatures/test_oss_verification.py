"""Verification of OSS signatures: times, coverage, and refusals whatever the signature."""

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.body.payload import UnsignedPayload, payload_form
from forebay.protocol.signatures.oss_claim import ClaimOssV1, ClaimOssV2, ClaimOssV4
from forebay.protocol.signatures.oss_verification import SignedOss, verify_oss
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv4_claim import read_claim
from forebay.protocol.target import parse_target
from harness.clients import RawRequest
from harness.reference_sigv4 import Secret
from security.oss_signers import OSS_SIGNERS
from security.signers import EXPIRES, Form, Pairs, form_name

NOW = 1_800_000_000.0
KNOWN = Secret("ak", "sk")
OF_HEADER = [form for form in OSS_SIGNERS if form[1] == "header"]
OF_QUERY = [form for form in OSS_SIGNERS if form[1] == "query"]
every_form = pytest.mark.parametrize("form", OSS_SIGNERS, ids=form_name)


def signed(
    form: Form, target: str = "/b/k", pairs: Pairs = (), method: str = "GET", secret: Secret = KNOWN
) -> RawRequest:
    return OSS_SIGNERS[form](secret, method, target, pairs, b"", NOW, None)


def proved(request: RawRequest, now: float = NOW, token: str | None = None) -> SignedOss:
    target, headers = parse_target(request.target, "", ()), CIMultiDict(request.pairs)
    claim = read_claim(target, headers)
    assert isinstance(claim, ClaimOssV1 | ClaimOssV2 | ClaimOssV4)
    return verify_oss(claim, request.method, target, headers, SecretKey("ak", "sk", token), now)


def refused(request: RawRequest, now: float = NOW, token: str | None = None) -> S3Error:
    with pytest.raises(S3Error) as refusal:
        proved(request, now, token)
    return refusal.value


def with_pair(request: RawRequest, name: str, value: str) -> RawRequest:
    pairs = [pair for pair in request.pairs if pair[0].lower() != name.lower()]
    return RawRequest(request.method, request.target, (*pairs, (name, value)))


@every_form
def test_a_signature_is_verified(form: Form) -> None:
    proof = proved(signed(form))
    assert (proof.access_key, f"SignedOss{proof.version}", proof.form) == ("ak", *form)
    assert payload_form(CIMultiDict({"Content-Length": "3"}), proof) == UnsignedPayload()


@pytest.mark.parametrize("form", OF_HEADER, ids=form_name)
def test_a_header_is_valid_for_fifteen_minutes(form: Form) -> None:
    request = signed(form)
    for late in (-900, 0, 900):
        proved(request, NOW + late)
    for late in (-901, 901, 86_400, -86_400 * 365):
        error = refused(request, NOW + late)
        assert error.code == "RequestTimeTooSkewed"
        assert error.details["MaxAllowedSkewMilliseconds"] == "900000"


@pytest.mark.parametrize("form", OF_QUERY, ids=form_name)
def test_a_url_is_valid_until_it_expires(form: Form) -> None:
    request = signed(form)
    proved(request, NOW + EXPIRES)
    assert refused(request, NOW + EXPIRES + 1).code == "AccessDenied"
    proved(request, NOW - 900)
    if form[0] == "SignedOssV4":
        assert refused(request, NOW - 901).message == "Request is not valid yet"
    else:
        proved(request, NOW - 86_400)  # it says only when it ends


@every_form
def test_the_token_belongs_to_the_key(form: Form) -> None:
    with_token = signed(form, secret=Secret("ak", "sk", token="tok/+="))
    proved(with_token, token="tok/+=")
    assert refused(with_token, token="tok/+").code == "InvalidToken"
    assert refused(with_token).code == "InvalidToken"
    assert refused(signed(form), token="tok/+=").code == "InvalidAccessKeyId"
    # Who hasn't the secret learns nothing of the token.
    spoilt = signed(form, secret=Secret("ak", "SK", token="wrong"))
    assert refused(spoilt, token="tok/+=").code == "SignatureDoesNotMatch"


@every_form
def test_parts_of_a_request_that_are_always_covered(form: Form) -> None:
    pairs = [("Content-Type", "a/b"), ("Content-MD5", "m"), ("x-oss-meta-a", "b")]
    request = signed(form, pairs=pairs, method="PUT")
    proved(request)
    for name, value in (
        *((name, f"{value}x") for name, value in pairs),
        ("x-oss-acl", "private"),
        ("X-OSS-Meta-B", ""),
    ):
        assert refused(with_pair(request, name, value)).code == "SignatureDoesNotMatch", name
    for name, _ in pairs:
        left = RawRequest("PUT", request.target, tuple(pair for pair in request.pairs if pair[0] != name))
        assert refused(left).code == "SignatureDoesNotMatch", name


@pytest.mark.parametrize("form", [form for form in OSS_SIGNERS if form[0] != "SignedOssV1"], ids=form_name)
def test_additional_headers_are_covered_and_present(form: Form) -> None:
    request = signed(form, pairs=[("Range", "bytes=0-1")])
    proved(request)
    assert refused(with_pair(request, "Range", "bytes=0-2")).code == "SignatureDoesNotMatch"
    removed = RawRequest("GET", request.target, tuple(pair for pair in request.pairs if pair[0] != "Range"))
    assert refused(removed).code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("name", ["Expires", "x-new"])
def test_a_header_of_version_1_covers_no_such_parameter(name: str) -> None:
    """Also where it is one of those that a URL is signed with."""
    request = signed(("SignedOssV1", "header"))
    added = RawRequest("GET", f"{request.target}?{name}=1", request.pairs)
    assert (refused(added).code, refused(added).details) == ("AccessDenied", {"ParameterNotSigned": name})


def test_a_key_that_reads_like_a_sub_resource_is_refused_in_version_1() -> None:
    """Its signature is also that of the sub-resource."""
    assert proved(signed(("SignedOssV1", "header"), "/b/k%3Fother"))
    assert refused(signed(("SignedOssV1", "header"), "/b/k%3Facl")).code == "AccessDenied"


@every_form
def test_the_secret_of_another_key_proves_nothing(form: Form) -> None:
    assert refused(signed(form, secret=Secret("another", KNOWN.secret))).code == "InvalidAccessKeyId"


@every_form
def test_s3_headers_are_refused(form: Form) -> None:
    """No version covers x-amz-*, and what comes behind the gate obeys them."""
    for name in ("x-amz-copy-source", "X-Amz-Acl", "x-amz-meta-a", "x-amz-security-token", "x-amz-"):
        assert refused(with_pair(signed(form), name, "b/other")).code == "AccessDenied", name
        url = f"/b/k?{name}=b"
        assert refused(signed(form, url)).code in {"AccessDenied", "InvalidArgument"}, name
    proved(with_pair(signed(form), "X-Amzn-Trace-Id", "Root=1"))  # a load balancer's, and nothing of S3


@every_form
@pytest.mark.parametrize("payload", ["", "0" * 64, "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "unsigned-payload"])
def test_a_claim_never_covers_the_body(form: Form, payload: str) -> None:
    request = with_pair(signed(form), "x-oss-content-sha256", payload)
    assert refused(request).code == "InvalidArgument"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("/20270115/", "/20270116/"),
        ("/20270115/", "//"),
        ("/oss/", "/oss-vectors/"),
        ("/oss/", "/s3/"),
        ("/oss/", "/OSS/"),
    ],
)
def test_the_scope_is_that_of_the_request(old: str, new: str) -> None:
    header, url = signed(("SignedOssV4", "header")), signed(("SignedOssV4", "query"))
    value = dict(header.pairs)["Authorization"]
    assert old in value
    assert refused(with_pair(header, "Authorization", value.replace(old, new))).code == "InvalidArgument"
    target = url.target.replace(old.replace("/", "%2F"), new.replace("/", "%2F"))
    assert target != url.target
    assert refused(RawRequest("GET", target, url.pairs)).code == "InvalidArgument"


@every_form
def test_an_error_shows_the_signed_text_without_secrets(form: Form) -> None:
    pairs = [("x-oss-server-side-encryption-customer-key", "canary"), ("x-oss-meta-a", "b")]
    request = signed(form, pairs=pairs, secret=Secret("ak", "SK", token="canary"))
    error = refused(request)
    assert error.code == "SignatureDoesNotMatch"
    assert error.details["OSSAccessKeyId"] == "ak"
    assert error.details["StringToSign"].startswith(("GET\n", "OSS4-HMAC-SHA256\n"))
    assert "canary" not in repr(error.details)
    if form[0] != "SignedOssV4":
        assert "x-oss-meta-a:b" in error.details["StringToSign"]
