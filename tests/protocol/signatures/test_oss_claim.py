"""The signature fields of an OSS request: accepted forms, and the code of each refusal."""

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.signatures.oss_claim import ClaimOssV1, ClaimOssV2, ClaimOssV4, OssClaim
from forebay.protocol.signatures.sigv2_claim import ClaimV2
from forebay.protocol.signatures.sigv4_claim import AnonymousClaim, ClaimV4, read_claim
from forebay.protocol.target import parse_target

DATE = "Sat, 16 Dec 2023 16:20:57 GMT"
CREDENTIAL = "ak/20231216/cn-hangzhou/oss/aliyun_v4_request"
V4 = f"OSS4-HMAC-SHA256 Credential={CREDENTIAL},Signature=00"
URL_V1 = {"OSSAccessKeyId": "ak", "Expires": "1702744257", "Signature": "s"}
URL_V2 = {
    "x-oss-signature-version": "OSS2",
    "x-oss-expires": "1702744257",
    "x-oss-access-key-id": "ak",
    "x-oss-signature": "s",
}
URL_V4 = {
    "x-oss-signature-version": "OSS4-HMAC-SHA256",
    "x-oss-credential": CREDENTIAL,
    "x-oss-date": "20231216T162057Z",
    "x-oss-expires": "600",
    "x-oss-signature": "00",
}


def claimed(authorization: str | None, raw: str = "/b/k", **more: str) -> OssClaim:
    headers = CIMultiDict({"Date": DATE})
    if authorization is not None:
        headers["Authorization"] = authorization
    headers.update({name.replace("_", "-"): value for name, value in more.items()})
    claim = read_claim(parse_target(raw, "", []), headers)
    assert not isinstance(claim, AnonymousClaim | ClaimV4 | ClaimV2)
    return claim


def refused(authorization: str | None, raw: str = "/b/k", **more: str) -> str:
    with pytest.raises(S3Error) as refusal:
        claimed(authorization, raw, **more)
    assert "ak" not in (refusal.value.message or "").split()
    return refusal.value.code


def url(fields: dict[str, str], **changed: str | None) -> str:
    whole = {**fields, **{name.replace("_", "-"): value for name, value in changed.items()}}
    return "/b/k?" + "&".join(f"{name}={value}" for name, value in whole.items() if value is not None)


def test_version_1() -> None:
    claim = claimed("OSS ak:c2ln")
    assert claim == ClaimOssV1("ak", "c2ln", DATE, 1702743657, "header", None)
    assert claimed("OSS  a:b:c2ln ").access_key == "a:b"
    dated = claimed("OSS ak:s", x_oss_date="Sat, 16 Dec 2023 16:20:58 GMT")
    assert isinstance(dated, ClaimOssV1)
    assert (dated.date, dated.moment) == ("Sat, 16 Dec 2023 16:20:58 GMT", 1702743658)
    assert claimed(None, url(URL_V1)) == ClaimOssV1("ak", "s", "1702744257", 1702744257, "query", None)


def test_version_2() -> None:
    claim = claimed("OSS2 AccessKeyId:ak,AdditionalHeaders:range;host,Signature:c2ln=")
    assert claim == ClaimOssV2("ak", "c2ln=", DATE, 1702743657, "header", None, ("host", "range"))
    assert claimed("OSS2 Signature:s, AccessKeyId:ak") == ClaimOssV2("ak", "s", DATE, 1702743657, "header", None, ())
    signed = claimed(None, url(URL_V2, x_oss_additional_headers="range"))
    assert signed == ClaimOssV2("ak", "s", "1702744257", 1702744257, "query", None, ("range",))


@pytest.mark.parametrize(
    "rest",
    [
        f"Credential={CREDENTIAL},AdditionalHeaders=abc;zabc,Signature=00",
        f"Credential={CREDENTIAL}, Signature=00, AdditionalHeaders=abc;zabc",
        f" Signature=00 ,  AdditionalHeaders=ZABC;abc,Credential={CREDENTIAL} ",
    ],
)
def test_version_4_in_any_order(rest: str) -> None:
    claim = claimed(f"OSS4-HMAC-SHA256 {rest}", x_oss_date="20231216T162058Z")
    assert isinstance(claim, ClaimOssV4)
    assert (claim.access_key, claim.signature, claim.timestamp) == ("ak", "00", "20231216T162058Z")
    assert claim.additional == ("abc", "zabc")
    assert claim.scope == ("20231216", "cn-hangzhou", "oss")
    assert (claim.expires, claim.form) == (None, "header")


def test_version_4_urls() -> None:
    claim = claimed(None, url(URL_V4))
    assert isinstance(claim, ClaimOssV4)
    assert (claim.timestamp, claim.expires, claim.form, claim.additional) == ("20231216T162057Z", 600, "query", ())
    assert (
        claimed(None, url(URL_V4, x_oss_expires="604800", x_oss_credential=f"a/b{CREDENTIAL[2:]}")).access_key == "a/b"
    )


@pytest.mark.parametrize("fields", [URL_V1, URL_V2, URL_V4])
def test_a_url_needs_every_field(fields: dict[str, str]) -> None:
    for name in fields:
        for spoilt in (None, ""):
            assert refused(None, url(fields, **{name: spoilt})) in {"InvalidArgument", "AccessDenied"}, name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-oss-expires", "0"),
        ("x-oss-expires", "604801"),
        ("x-oss-expires", "-1"),
        ("x-oss-expires", "1e3"),
        ("x-oss-expires", "9999999"),
        ("x-oss-expires", "%D9%A1"),
        ("x-oss-date", "2023-12-16"),
        ("x-oss-date", "20231316T162057Z"),
        ("x-oss-signature-version", "OSS3"),
        ("x-oss-signature-version", "oss2"),
        ("x-oss-credential", "ak"),
        ("x-oss-credential", "/20231216/cn-hangzhou/oss/aliyun_v4_request"),
        ("x-oss-credential", "ak/20231216/cn-hangzhou/oss/aws4_request"),
        ("x-oss-credential", f"ak/20231216/{'r' * 65}/oss/aliyun_v4_request"),
        ("x-oss-additional-headers", ""),
        ("x-oss-additional-headers", "a;a"),
        ("x-oss-additional-headers", "a;;b"),
    ],
)
def test_fields_of_a_version_4_url(name: str, value: str) -> None:
    assert refused(None, url(URL_V4, **{name: value})) == "InvalidArgument"


@pytest.mark.parametrize("expires", ["", "x", "-1", "1.5", "99999999999", "+1"])
def test_expiry_of_a_url_of_other_versions(expires: str) -> None:
    assert refused(None, url(URL_V1, Expires=expires)) in {"InvalidArgument", "AccessDenied"}
    assert refused(None, url(URL_V2, x_oss_expires=expires)) in {"InvalidArgument", "AccessDenied"}


@pytest.mark.parametrize(
    "authorization",
    [
        *("OSS", "OSS ", "OSS ak", "OSS :", "OSS ak:", "OSS :s"),
        *("OSS2", "OSS2 ak:s", "OSS2 AccessKeyId:ak", "OSS2 Signature:s", "OSS2 AccessKeyId:,Signature:s"),
        *("OSS2 AccessKeyId:ak,Signature:s,Other:x", "OSS2 AccessKeyId:ak,AccessKeyId:ak,Signature:s"),
        *("OSS2 AccessKeyId:ak,AdditionalHeaders:,Signature:s", "OSS2 AccessKeyId=ak,Signature=s"),
        *("OSS4-HMAC-SHA256", "OSS4-HMAC-SHA256 x", f"{V4},", f"{V4},Signature=01", f"{V4},SignedHeaders=host"),
        *(f"OSS4-HMAC-SHA256 Credential={CREDENTIAL}", "OSS4-HMAC-SHA256 Signature=00", f"{V4},AdditionalHeaders="),
        *(f"{V4},AdditionalHeaders=a;a", "OSS4-HMAC-SHA256 Credential=ak,Signature=00"),
        *("OSS3 ak:s", "oss ak:s", "OSS4-HMAC-SHA1 x"),
    ],
)
def test_an_unknown_form_is_refused(authorization: str) -> None:
    assert refused(authorization) == "InvalidArgument"


@pytest.mark.parametrize("authorization", ["OSS ak:s", "OSS2 AccessKeyId:ak,Signature:s", V4])
def test_a_request_without_a_time_is_denied(authorization: str) -> None:
    for date in ("", "yesterday", "1702744257", "99999999T999999Z"):
        assert refused(authorization, Date=date) == "AccessDenied"


@pytest.mark.parametrize("authorization", ["OSS ak:s", "OSS2 AccessKeyId:ak,Signature:s", V4, "AWS ak:s"])
@pytest.mark.parametrize(
    "raw",
    [
        *(
            url(URL_V1),
            url(URL_V2),
            url(URL_V4),
            "/b/k?Signature=s",
            "/b/k?x-oss-signature=s",
            "/b/k?OSSAccessKeyId=ak",
        ),
        *("/b/k?X-Amz-Signature=s", "/b/k?AWSAccessKeyId=ak"),
    ],
)
def test_two_ways_of_signing_are_refused(authorization: str, raw: str) -> None:
    assert refused(authorization, raw) == "InvalidArgument"


@pytest.mark.parametrize(
    "raw",
    [
        url(URL_V1) + "&" + url(URL_V4)[5:],
        url(URL_V1, AWSAccessKeyId="ak"),
        url(URL_V1, X_Amz_Signature="s"),
        url(URL_V4, X_Amz_Algorithm="AWS4-HMAC-SHA256"),
        url(URL_V4, AWSAccessKeyId="ak"),
        url(URL_V4, Signature="s"),
        url(URL_V2, OSSAccessKeyId="ak"),
    ],
)
def test_two_ways_of_signing_in_the_query_are_refused(raw: str) -> None:
    assert refused(None, raw) == "InvalidArgument"


@pytest.mark.parametrize("raw", [url(fields) for fields in (URL_V1, URL_V2, URL_V4)])
def test_a_repeated_query_name_is_refused(raw: str) -> None:
    query = raw.partition("?")[2].split("&")
    for pair in (*query, "acl", "a=b"):
        assert refused(None, f"{raw}&{pair}&{pair.partition('=')[0]}=other") == "InvalidArgument", pair
    assert refused("OSS ak:s", "/b/k?acl&acl=") == "InvalidArgument"
    for nameless in ("=", "=a", "acl&="):
        assert refused(V4, f"/b/k?{nameless}") == "InvalidArgument"


def test_a_repeated_header_is_refused() -> None:
    for name in ("x-oss-meta-a", "X-OSS-Date", "Date", "x-oss-security-token", "security-token"):
        headers = CIMultiDict([("Date", DATE), ("Authorization", "OSS ak:s"), (name, DATE), (name.lower(), DATE)])
        with pytest.raises(S3Error) as refusal:
            read_claim(parse_target("/b/k", "", []), headers)
        assert refusal.value.code == "InvalidRequest", name


def test_the_positions_of_the_token() -> None:
    assert claimed("OSS ak:s", x_oss_security_token="t").security_token == "t"
    assert claimed("OSS ak:s", security_token="t").security_token == "t"
    assert claimed(V4, x_oss_security_token="t").security_token == "t"
    assert claimed(None, url(URL_V1, security_token="t")).security_token == "t"
    assert claimed(None, url(URL_V2, security_token="t")).security_token == "t"
    assert claimed(None, url(URL_V4, x_oss_security_token="t")).security_token == "t"
    assert refused("OSS ak:s", x_oss_security_token="t", security_token="t") == "InvalidRequest"
    assert refused(None, url(URL_V4, x_oss_security_token="t"), x_oss_security_token="t") == "InvalidRequest"
    # A query name is a token in a URL's signature alone.
    assert claimed("OSS ak:s", "/b/k?security-token=t").security_token is None


def test_the_repr_of_a_claim_hides_its_signature() -> None:
    for claim in (
        claimed("OSS ak:canary", x_oss_security_token="canary"),
        claimed("OSS2 AccessKeyId:ak,Signature:canary"),
        claimed(V4.replace("=00", "=canary"), security_token="canary"),
        claimed(None, url(URL_V4, x_oss_signature="canary", x_oss_security_token="canary")),
    ):
        assert "canary" not in repr(claim)
        assert "'ak'" in repr(claim)
