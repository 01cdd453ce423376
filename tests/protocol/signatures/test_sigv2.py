"""Signature Version 2: Amazon's examples, the bounds of time, and requests refused despite a correct signature."""

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.body.payload import HashedPayload, UnsignedPayload, can_never_verify, payload_form
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv2 import SignedV2, sign_v2, verify_v2
from forebay.protocol.signatures.sigv2_claim import ClaimV2
from forebay.protocol.signatures.sigv4_claim import read_claim
from forebay.protocol.target import parse_target

# https://docs.aws.amazon.com/AmazonS3/latest/userguide/RESTAuthentication.html
AMAZON = SecretKey("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
DATE, NOW = "Tue, 27 Mar 2007 19:36:42 +0000", 1175024202
HOST, DOMAINS = "awsexamplebucket1.us-west-1.s3.amazonaws.com", ["us-west-1.s3.amazonaws.com"]
SECRET = SecretKey("AK", "secret", None)


def proved(
    method: str, raw: str, headers: CIMultiDict[str], now: float, secret: SecretKey = SECRET, host: str = ""
) -> SignedV2:
    target = parse_target(raw, host, DOMAINS)
    claim = read_claim(target, headers)
    assert isinstance(claim, ClaimV2)
    return verify_v2(claim, method, target, headers, secret, now)


def code(method: str, raw: str, headers: CIMultiDict[str], now: float, secret: SecretKey = SECRET) -> str:
    with pytest.raises(S3Error) as refusal:
        proved(method, raw, headers, now, secret)
    return refusal.value.code


def by_header(text: str, **fields: str) -> CIMultiDict[str]:
    """Returns headers with a signature of `text`."""
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return CIMultiDict({**named, "Authorization": f"AWS AK:{sign_v2('secret', text)}"})


def by_query(text: str, expires: int, more: str = "") -> str:
    signature = sign_v2("secret", text).replace("+", "%2B").replace("=", "%3D").replace("/", "%2F")
    return f"/b/k?{more}AWSAccessKeyId=AK&Expires={expires}&Signature={signature}"


@pytest.mark.parametrize(
    ("method", "raw", "more", "text"),
    [
        ("GET", "/photos/puppy.jpg", {}, f"GET\n\n\n{DATE}\n/awsexamplebucket1/photos/puppy.jpg"),
        (
            "PUT",
            "/photos/puppy.jpg",
            {"Content-Type": "image/jpeg"},
            f"PUT\n\nimage/jpeg\n{DATE}\n/awsexamplebucket1/photos/puppy.jpg",
        ),
        ("GET", "/?prefix=photos&max-keys=50&marker=puppy", {}, f"GET\n\n\n{DATE}\n/awsexamplebucket1/"),
        ("GET", "/?acl", {}, f"GET\n\n\n{DATE}\n/awsexamplebucket1/?acl"),
        (
            "PUT",
            "/photos/a",
            {"x-amz-meta-reviewedby": "joe@x, jane@x", "X-Amz-Acl": "public-read"},
            f"PUT\n\n\n{DATE}\nx-amz-acl:public-read\nx-amz-meta-reviewedby:joe@x, jane@x\n/awsexamplebucket1/photos/a",
        ),
        ("GET", "/a?versionId=%2F&acl=", {}, f"GET\n\n\n{DATE}\n/awsexamplebucket1/a?acl&versionId=/"),
        ("GET", "/a?versionId=%2F&acl=", {}, f"GET\n\n\n{DATE}\n/awsexamplebucket1/a?acl=&versionId=/"),
        ("GET", "/b%2Fc", {}, f"GET\n\n\n{DATE}\n/awsexamplebucket1/b%2Fc"),
        ("PUT", "/a", {"Content-MD5": "bWQ1"}, f"PUT\nbWQ1\n\n{DATE}\n/awsexamplebucket1/a"),
        ("GET", "/", {}, f"GET\n\n\n{DATE}\n/awsexamplebucket1"),
    ],
)
def test_signed_text_of_each_request_form(method: str, raw: str, more: dict[str, str], text: str) -> None:
    headers = CIMultiDict({"Date": DATE, **more})
    headers["Authorization"] = f"AWS {AMAZON.access_key}:{sign_v2(AMAZON.secret_key, text)}"
    assert proved(method, raw, headers, NOW, AMAZON, HOST).access_key == AMAZON.access_key


@pytest.mark.parametrize("raw", ["/b", "/b/"])
def test_a_bucket_may_be_signed_with_its_slash_or_without(raw: str) -> None:
    for signed in ("/b", "/b/"):
        proved("GET", raw, by_header(f"GET\n\n\n{DATE}\n{signed}", Date=DATE), NOW)
    for other in ("/", "/bu", "/b//", "/b/k"):
        headers = by_header(f"GET\n\n\n{DATE}\n{other}", Date=DATE)
        assert code("GET", raw, headers, NOW) == "SignatureDoesNotMatch", other
    headers = by_header(f"GET\n\n\n{DATE}\n/b/k/", Date=DATE)
    assert code("GET", "/b/k", headers, NOW) == "SignatureDoesNotMatch", "the slash is of the key"


def test_the_payload_is_the_one_that_is_said() -> None:
    for named, payload in (({}, "UNSIGNED-PAYLOAD"), ({"x-amz-content-sha256": "a" * 64}, "a" * 64)):
        line = "".join(f"{name}:{value}\n" for name, value in named.items())
        headers = by_header(f"GET\n\n\n{DATE}\n{line}/b/k", Date=DATE, **named)
        assert proved("GET", "/b/k", headers, NOW).payload == payload


def test_amazons_example_signature() -> None:
    text = f"GET\n\n\n{DATE}\n/awsexamplebucket1/photos/puppy.jpg"
    assert sign_v2(AMAZON.secret_key, text) == "qgk2+6Sv9/oM7G3qLEjTH1a1l1g="


def test_x_amz_date_replaces_date() -> None:
    text = f"GET\n\n\n\nx-amz-date:{DATE}\n/b/k"
    assert proved("GET", "/b/k", by_header(text, x_amz_date=DATE, Date="never"), NOW).form == "header"


@pytest.mark.parametrize(("off", "refused"), [(900, ""), (-900, ""), (901, "RequestTimeTooSkewed"), (-901, "Request")])
def test_header_signature_is_valid_for_15_minutes_of_skew(off: int, refused: str) -> None:
    headers = by_header(f"GET\n\n\n{DATE}\n/b/k", Date=DATE)
    if refused:
        assert code("GET", "/b/k", headers, NOW + off) == "RequestTimeTooSkewed"
    else:
        proved("GET", "/b/k", headers, NOW + off)


@pytest.mark.parametrize("date", ["Bad Date", "", "Tue, 07 Jul 1950 21:53:04 GMT", "19500707T215304Z"])
def test_invalid_date_is_denied(date: str) -> None:
    assert code("GET", "/b/k", by_header(f"GET\n\n\n\nx-amz-date:{date}\n/b/k", x_amz_date=date), NOW) == "AccessDenied"


def test_empty_x_amz_date_is_denied_beside_a_valid_date() -> None:
    """It is the date of the request nevertheless, and no valid one."""
    text = "GET\n\n\n\nx-amz-date:\n/b/k"
    assert code("GET", "/b/k", by_header(text, x_amz_date="", Date=DATE), NOW) == "AccessDenied"


def test_presigned_url_is_valid_until_it_expires() -> None:
    raw = by_query("GET\n\n\n1000\n/b/k", 1000)
    assert proved("GET", raw, CIMultiDict(), 1000).form == "query"
    assert code("GET", raw, CIMultiDict(), 1001) == "AccessDenied"


@pytest.mark.parametrize("expires", ["", "-1", "+1", "1e3", "1.5", "99999999999", "٣"])
def test_expires_must_be_seconds_since_the_epoch(expires: str) -> None:
    raw = f"/b/k?AWSAccessKeyId=AK&Expires={expires.replace('+', '%2B').replace('٣', '%D9%A3')}&Signature=x"
    with pytest.raises(S3Error) as refusal:
        read_claim(parse_target(raw, "", []), CIMultiDict())
    assert refusal.value.code == "AccessDenied"


@pytest.mark.parametrize("name", ["AWSAccessKeyId", "Expires", "Signature", "x-amz-security-token"])
def test_repeated_or_missing_parameter_is_refused(name: str) -> None:
    raw = by_query("GET\n\n\n1000\n/b/k", 1000, "x-amz-security-token=t&")
    for changed in (f"{raw}&{name}=1000", f"{raw}&{name.upper() if name[0] == 'x' else name}=1000"):
        with pytest.raises(S3Error):
            read_claim(parse_target(changed, "", []), CIMultiDict())
    if name != "x-amz-security-token":
        with pytest.raises(S3Error):
            read_claim(parse_target(raw.replace(f"{name}=", "other="), "", []), CIMultiDict())


@pytest.mark.parametrize(
    "name", ["tagging", "retention", "legal-hold", "encryption", "attributes", "append", "unknown"]
)
def test_uncovered_query_cannot_change_the_operation(name: str) -> None:
    raw = by_query("GET\n\n\n1000\n/b/k", 1000)
    assert code("GET", f"{raw}&{name}", CIMultiDict(), 1000) in {"AccessDenied", "SignatureDoesNotMatch"}
    headers = by_header(f"GET\n\n\n{DATE}\n/b/k", Date=DATE)
    assert code("GET", f"/b/k?{name}", headers, NOW) in {"AccessDenied", "SignatureDoesNotMatch"}
    assert code("GET", "/b/k?x-amz-acl=private", headers, NOW) == "AccessDenied"


def test_hoisted_headers_are_covered_as_headers() -> None:
    text = "PUT\n\ntext/x\n1000\nx-amz-acl:private\n/b/k"
    raw = by_query(text, 1000, "x-amz-acl=private&content-type=text/x&")
    proved("PUT", raw, CIMultiDict({"Content-Type": "text/x"}), 1000)
    proved("PUT", raw, CIMultiDict(), 1000)
    assert code("PUT", raw, CIMultiDict({"Content-Type": "text/y"}), 1000) == "InvalidArgument"
    assert code("PUT", raw, CIMultiDict({"x-amz-acl": "private"}), 1000) == "InvalidArgument"
    assert code("PUT", raw.replace("private", "public"), CIMultiDict(), 1000) == "SignatureDoesNotMatch"
    assert code("PUT", f"{raw}&x-amz-meta-a=b", CIMultiDict(), 1000) == "SignatureDoesNotMatch"


@pytest.mark.parametrize(
    ("secret", "token", "expected"),
    [("t", "t", ""), ("t", None, "InvalidAccessKeyId"), (None, "t", "InvalidToken"), ("t", "u", "InvalidToken")],
)
def test_session_token_must_match_the_credentials(secret: str | None, token: str | None, expected: str) -> None:
    key = SecretKey("AK", "secret", secret)
    line = f"x-amz-security-token:{token}\n" if token else ""
    headers = by_header(f"GET\n\n\n{DATE}\n{line}/b/k", Date=DATE, **({"x_amz_security_token": token} if token else {}))
    if expected:
        assert code("GET", "/b/k", headers, NOW, key) == expected
    else:
        proved("GET", "/b/k", headers, NOW, key)


def test_wrong_key_or_secret_is_refused() -> None:
    headers = by_header(f"GET\n\n\n{DATE}\n/b/k", Date=DATE)
    assert code("GET", "/b/k", headers, NOW, SecretKey("other", "secret")) == "InvalidAccessKeyId"
    assert code("GET", "/b/k", headers, NOW, SecretKey("AK", "other")) == "SignatureDoesNotMatch"
    assert "secret" not in repr(read_claim(parse_target("/b/k", "", []), headers))


@pytest.mark.parametrize("authorization", ["AWS", "AWS ", "AWS AK", "AWS :x", "AWS AK:"])
def test_malformed_authorization_is_refused(authorization: str) -> None:
    with pytest.raises(S3Error) as refusal:
        read_claim(parse_target("/b/k", "", []), CIMultiDict({"Date": DATE, "Authorization": authorization}))
    assert refusal.value.code == "InvalidArgument"


@pytest.mark.parametrize(
    "value", ["STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-X", "x"]
)
def test_payload_is_plain_or_never_verifies(value: str) -> None:
    assert payload_form(CIMultiDict(), SignedV2("AK", "header", "UNSIGNED-PAYLOAD")) == UnsignedPayload()
    assert payload_form(CIMultiDict(), SignedV2("AK", "header", "a" * 64)) == HashedPayload("a" * 64)
    form = payload_form(CIMultiDict(), SignedV2("AK", "header", value))
    assert form == HashedPayload(value)
    assert can_never_verify(form)
