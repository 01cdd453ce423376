"""Claims: the requests that are parsed, and the error codes of the refused ones."""

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.signatures.oss_claim import ClaimOssV1, OssClaim
from forebay.protocol.signatures.sigv2_claim import ClaimV2
from forebay.protocol.signatures.sigv4_claim import (
    SIGV4A_STREAMING,
    STREAMING,
    AnonymousClaim,
    ClaimV4,
    read_claim,
)
from forebay.protocol.target import parse_target

CREDENTIAL = "Credential=AK/20130524/us-east-1/s3/aws4_request"
REST = f"SignedHeaders=host;x-amz-date, Signature={'a' * 64}"
QUERY = {
    "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
    "X-Amz-Credential": "AK/20130524/us-east-1/s3/aws4_request",
    "X-Amz-Date": "20130524T000000Z",
    "X-Amz-Expires": "60",
    "X-Amz-SignedHeaders": "host",
    "X-Amz-Signature": "a" * 64,
}


def claimed(authorization: str | None, raw: str = "/b/k", **more: str) -> ClaimV4 | ClaimV2 | OssClaim | AnonymousClaim:
    headers = CIMultiDict({"x-amz-date": "20130524T000000Z", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    if authorization is not None:
        headers["Authorization"] = authorization
    headers.update({name.replace("_", "-"): value for name, value in more.items()})
    return read_claim(parse_target(raw, "", []), headers)


def refused(authorization: str | None, raw: str = "/b/k", **more: str) -> str:
    with pytest.raises(S3Error) as refusal:
        claimed(authorization, raw, **more)
    return refusal.value.code


def presigned(**changed: str | None) -> str:
    fields = {**QUERY, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return "/b/k?" + "&".join(f"{name}={value}" for name, value in fields.items() if value is not None)


@pytest.mark.parametrize(
    "authorization",
    [
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}",
        f"AWS4-HMAC-SHA256 {CREDENTIAL},SignedHeaders=host;x-amz-date,Signature={'a' * 64}",
        f"  AWS4-HMAC-SHA256   {REST} ,  {CREDENTIAL} ",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=X-Amz-Date;Host, Signature={'a' * 64}",
    ],
)
def test_spacing_order_and_case_do_not_matter(authorization: str) -> None:
    claim = claimed(authorization)
    assert isinstance(claim, ClaimV4)
    assert (claim.access_key, claim.form, claim.expires) == ("AK", "header", None)
    assert claim.scope == ("20130524", "us-east-1", "s3")
    assert claim.signed_headers == ("host", "x-amz-date")
    assert claim.signature == "a" * 64


def test_access_key_may_contain_slashes_and_colons() -> None:
    claim = claimed(f"AWS4-HMAC-SHA256 {CREDENTIAL.replace('AK', 'a/test:er')}, {REST}")
    assert isinstance(claim, ClaimV4)
    assert claim.access_key == "a/test:er"


@pytest.mark.parametrize(
    "authorization",
    [
        "AWS4-HMAC-SHA256",
        "AWS4-HMAC-SHA256 ,",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}, Signature=b",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}, Region=x",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host, Region=x",
        f"AWS4-HMAC-SHA256 Credential=AK/20130524/us-east-1/s3, {REST}",
        f"AWS4-HMAC-SHA256 Credential=AK/20130524/us-east-1/s3/aws5_request, {REST}",
        f"AWS4-HMAC-SHA256 Credential=/20130524/us-east-1/s3/aws4_request, {REST}",
        f"AWS4-HMAC-SHA256 Credential=AK/20130524/{'r' * 65}/s3/aws4_request, {REST}",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=, Signature=a",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host;;x, Signature=a",
        f"AWS4-HMAC-SHA256 {CREDENTIAL}, SignedHeaders=host;Host, Signature=a",
    ],
)
def test_malformed_authorization_is_refused(authorization: str) -> None:
    assert refused(authorization) == "AuthorizationHeaderMalformed"


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        (f"AWS4-ECDSA-P256-SHA256 {CREDENTIAL}, {REST}", "NotImplemented"),
        ("Bearer abc", "InvalidArgument"),
        ("", "InvalidArgument"),
        (f"aws4-hmac-sha256 {CREDENTIAL}, {REST}", "InvalidArgument"),
    ],
)
def test_unknown_scheme_is_refused_not_anonymous(authorization: str, code: str) -> None:
    assert refused(authorization) == code


def test_error_omits_a_bearer_token() -> None:
    with pytest.raises(S3Error) as refusal:
        claimed("Bearer hunter2")
    assert "hunter2" not in f"{refusal.value} {refusal.value.details}"


def test_unsigned_request_is_anonymous() -> None:
    assert claimed(None, "/b/k?versionId=1&X-Amz-Date=1") == AnonymousClaim()


def test_presigned_url_is_parsed() -> None:
    claim = claimed(None, presigned(X_Amz_Security_Token="t%2Bt"), x_amz_content_sha256="UNSIGNED-PAYLOAD")
    assert isinstance(claim, ClaimV4)
    assert (claim.form, claim.expires, claim.security_token) == ("query", 60, "t+t")
    assert claim.payload == "UNSIGNED-PAYLOAD"


@pytest.mark.parametrize("name", list(QUERY))
def test_presigned_url_needs_each_parameter_once(name: str) -> None:
    without = presigned(**{name: None})
    assert refused(None, without) == "AuthorizationQueryParametersError"
    assert refused(None, presigned(**{name: ""})) == "AuthorizationQueryParametersError"
    twice = refused(None, presigned() + f"&{name}={QUERY[name]}")
    # A repeated parameter that identifies a signature counts as two signatures.
    assert twice in {"AuthorizationQueryParametersError", "InvalidArgument"}


@pytest.mark.parametrize("expires", ["604801", "-1", "+60", "1e3", "٣", "6_0", "9" * 40, "9" * 5000])
def test_expires_is_at_most_seven_days(expires: str) -> None:
    encoded = expires.replace("+", "%2B").replace("٣", "%D9%A3")
    assert refused(None, presigned(X_Amz_Expires=encoded)) == "AuthorizationQueryParametersError"


@pytest.mark.parametrize("date", ["20130524", "20130524T000000", "20131324T000000Z", "2013-05-24T00:00:00Z"])
def test_invalid_date_of_a_presigned_url_is_refused(date: str) -> None:
    assert refused(None, presigned(X_Amz_Date=date)) == "AuthorizationQueryParametersError"


def test_other_algorithms_in_the_query_are_refused() -> None:
    assert refused(None, presigned(X_Amz_Algorithm="AWS4-ECDSA-P256-SHA256")) == "NotImplemented"
    assert refused(None, presigned(X_Amz_Algorithm="none")) == "AuthorizationQueryParametersError"
    assert refused(None, "/b/k?Signature=x") == "AccessDenied"


def test_two_ways_of_signing_are_refused() -> None:
    both = f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}"
    assert refused(both, presigned()) == "InvalidArgument"
    assert refused(both, "/b/k?X-Amz-Signature=x") == "InvalidArgument"
    assert refused(both, "/b/k?Signature=x") == "InvalidArgument"
    assert refused(None, presigned() + "&Signature=x") == "InvalidArgument"
    headers = CIMultiDict([("Authorization", both), ("authorization", both)])
    with pytest.raises(S3Error) as refusal:
        read_claim(parse_target("/b/k", "", []), headers)
    assert refusal.value.code == "InvalidArgument"


@pytest.mark.parametrize("name", ["x-amz-date", "x-amz-content-sha256", "x-amz-security-token"])
def test_repeated_signature_header_is_refused(name: str) -> None:
    headers = CIMultiDict({"x-amz-date": "20130524T000000Z", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    headers["Authorization"] = f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}"
    headers[name] = value = headers.get(name, "t")
    headers.add(name, value)
    with pytest.raises(S3Error) as refusal:
        read_claim(parse_target("/b/k", "", []), headers)
    assert refusal.value.code == ("AccessDenied" if name == "x-amz-date" else "InvalidRequest")


def test_header_signature_needs_payload_hash_and_date() -> None:
    good = CIMultiDict({"x-amz-date": "20130524T000000Z", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    good["Authorization"] = f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}"
    for name, code in (("x-amz-content-sha256", "InvalidRequest"), ("x-amz-date", "AccessDenied")):
        headers = good.copy()
        del headers[name]
        with pytest.raises(S3Error) as refusal:
            read_claim(parse_target("/b/k", "", []), headers)
        assert refusal.value.code == code


@pytest.mark.parametrize("date", ["", "20130524", "20131324T000000Z", "Fri, 24 May 2013 00:00:00 GMT"])
def test_invalid_x_amz_date_is_refused(date: str) -> None:
    assert refused(f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}", x_amz_date=date) == "AccessDenied"


@pytest.mark.parametrize(
    ("authorization", "raw", "kind"),
    [
        ("AWS AK:c2lnbmF0dXJl", "/b/k", ClaimV2),
        ("OSS AK:c2lnbmF0dXJl", "/b/k", ClaimOssV1),
        (None, "/b/k?AWSAccessKeyId=AK&Expires=1&Signature=s", ClaimV2),
        (None, "/b/k?OSSAccessKeyId=AK&Expires=1&Signature=s", ClaimOssV1),
    ],
)
def test_each_way_of_signing_has_its_claim(authorization: str | None, raw: str, kind: type) -> None:
    assert type(claimed(authorization, raw, Date="Fri, 24 May 2013 00:00:00 GMT")) is kind


def test_date_header_replaces_a_missing_x_amz_date() -> None:
    headers = CIMultiDict({"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
    headers["Authorization"] = f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}"
    claim = read_claim(parse_target("/b/k", "", []), headers)
    assert isinstance(claim, ClaimV4)
    assert claim.timestamp == "20130524T000000Z"


@pytest.mark.parametrize("payload", ["0" * 63, "0" * 65, "g" * 64, "STREAMING", "unsigned-payload"])
def test_other_payload_hashes_are_refused(payload: str) -> None:
    assert refused(f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}", x_amz_content_sha256=payload) == "InvalidArgument"


@pytest.mark.parametrize("payload", ["0" * 64, "aB" * 32, *STREAMING, *SIGV4A_STREAMING])
def test_payload_hash_is_hex_in_either_case_or_a_framing(payload: str) -> None:
    claim = claimed(f"AWS4-HMAC-SHA256 {CREDENTIAL}, {REST}", x_amz_content_sha256=payload)
    assert isinstance(claim, ClaimV4)
    assert claim.payload == payload
