"""Signatures of OSS that others computed: published examples, and those that real SDKs made at a moment that was set.

https://github.com/aliyun/alibabacloud-oss-python-sdk-v2/tree/main/tests/unit/signer, and oss2 2.19.1, whose own tests
have no example with a fixed clock.
"""

from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.signatures.dialect_detection import speaks_oss
from forebay.protocol.signatures.oss_verification import SignedOss, verify_oss
from forebay.protocol.signatures.signing_key import SecretKey
from forebay.protocol.signatures.sigv2_claim import ClaimV2
from forebay.protocol.signatures.sigv4_claim import AnonymousClaim, ClaimV4, read_claim
from forebay.protocol.target import parse_target

DOMAINS: Final = ("oss-cn-hangzhou.aliyuncs.com",)
HOST: Final = "bucket.oss-cn-hangzhou.aliyuncs.com"
KEY: Final = "/1234%2B-/123/1.txt"
PARAMETERS: Final = "param1=value1&%2Bparam1=value3&%7Cparam1=value4&%2Bparam2=&%7Cparam2=&param2="
HEADERS: Final = {"x-oss-head1": "value", "abc": "value", "ZAbc": "value", "XYZ": "value"}
PLAIN: Final = {**HEADERS, "content-type": "text/plain", "x-oss-content-sha256": "UNSIGNED-PAYLOAD"}
BINARY: Final = {**HEADERS, "content-type": "application/octet-stream"}
ALICE: Final = {
    "Content-MD5": "eB5eJF1ptWaXm4bijSPyxw==",
    "Content-Type": "text/html",
    "x-oss-meta-author": "alice",
    "x-oss-meta-magic": "abracadabra",
    "x-oss-date": "Wed, 28 Dec 2022 10:27:41 GMT",
}
DAY: Final = {"x-oss-date": "Wed, 28 Dec 2022 10:27:41 GMT"}
IN_2022: Final = parsedate_to_datetime(DAY["x-oss-date"]).timestamp()
OF_OSS2: Final = {"x-oss-meta-a": "b", "Range": "bytes=0-9", "Content-Type": "text/plain"}
ODD: Final = "/bucket/dir%2Fa%20b%2Bc%20%C3%A9%3F.txt"
WHEN: Final = {"Date": "Sat, 16 Dec 2023 16:20:57 GMT"}


class Vector(NamedTuple):
    name: str
    method: str
    raw: str
    headers: dict[str, str]
    now: float
    token: str | None = None
    host: str = HOST


def v4(date: str, region: str, product: str, signature: str, additional: str = "") -> dict[str, str]:
    credential = f"OSS4-HMAC-SHA256 Credential=ak/{date[:8]}/{region}/{product}/aliyun_v4_request"
    return {"Authorization": f"{credential},{additional}Signature={signature}", "x-oss-date": date}


def v4_url(date: str, expires: int, signature: str, more: str = "", scope: str = "cn-hangzhou/oss") -> str:
    credential = f"ak/{date[:8]}/{scope}/aliyun_v4_request".replace("/", "%2F")
    query = f"x-oss-signature-version=OSS4-HMAC-SHA256&x-oss-date={date}&x-oss-expires={expires}"
    return f"{KEY}?{PARAMETERS}&{query}&x-oss-credential={credential}{more}&x-oss-signature={signature}"


VECTORS: Final = (
    Vector(
        "v4 header",
        "PUT",
        f"{KEY}?{PARAMETERS}",
        {
            **PLAIN,
            **v4(
                "20231216T162057Z",
                "cn-hangzhou",
                "oss",
                "e21d18daa82167720f9b1047ae7e7f1ce7cb77a31e8203a7d5f4624fa0284afe",
            ),
        },
        1702743657,
    ),
    Vector(
        "v4 header with token",
        "PUT",
        f"{KEY}?{PARAMETERS}",
        {
            **PLAIN,
            "x-oss-security-token": "token",
            **v4(
                "20231217T034736Z",
                "cn-hangzhou",
                "oss",
                "b94a3f999cf85bcdc00d332fbd3734ba03e48382c36fa4d5af5df817395bd9ea",
            ),
        },
        1702784856,
        "token",
    ),
    Vector(
        "v4 header with additional headers",
        "PUT",
        f"{KEY}?{PARAMETERS}",
        {
            **PLAIN,
            **v4(
                "20231216T172512Z",
                "cn-hangzhou",
                "oss",
                "4a4183c187c07c8947db7620deb0a6b38d9fbdd34187b6dbaccb316fa251212f",
                "AdditionalHeaders=abc;zabc,",
            ),
        },
        1702747512,
    ),
    Vector(
        "v4 header of a cloud box",
        "PUT",
        f"{KEY}?{PARAMETERS}",
        {
            **PLAIN,
            **v4(
                "20231216T162057Z",
                "cb-123",
                "oss-cloudbox",
                "94ce1f12c17d148ea681030275a94449d3357f5b5b21133996eec80af3e08a43",
            ),
        },
        1702743657,
    ),
    Vector(
        "v4 url",
        "PUT",
        v4_url("20231217T025437Z", 599, "a39966c61718be0d5b14e668088b3fa07601033f6518ac7b523100014269c0fe"),
        BINARY,
        1702781677,
    ),
    Vector(
        "v4 url with token",
        "PUT",
        v4_url(
            "20231217T035628Z",
            599,
            "3817ac9d206cd6dfc90f1c09c00be45005602e55898f26f5ddb06d7892e1f8b5",
            "&x-oss-security-token=token",
        ),
        BINARY,
        1702785388,
        "token",
    ),
    Vector(
        "v4 url with additional headers",
        "PUT",
        v4_url(
            "20231217T033009Z",
            599,
            "6bd984bfe531afb6db1f7550983a741b103a8c58e5e14f83ea474c2322dfa2b7",
            "&x-oss-additional-headers=abc%3Bzabc",
        ),
        BINARY,
        1702783809,
    ),
    Vector(
        "v4 url for five days",
        "PUT",
        v4_url("20231217T025437Z", 432000, "31029123dc7732d2d2cfd4006ea4fdb6cf86da6478f813e2bf8f87877c7b9fec"),
        BINARY,
        1702781677 + 432000,
    ),
    Vector(
        "v4 url of a cloud box",
        "PUT",
        v4_url(
            "20231217T025437Z",
            599,
            "07284191b9b4978ac3520cd39ee2dea2747eda454089359371ff463a6c7ba20f",
            "&x-oss-additional-headers=abc%3Bzabc",
            "cb-123/oss-cloudbox",
        ),
        BINARY,
        1702781677,
    ),
    Vector(
        "v1 header",
        "PUT",
        "/examplebucket/nelson",
        {**ALICE, "Authorization": "OSS ak:kSHKmLxlyEAKtZPkJhG9bZb5k7M="},
        IN_2022,
        host="127.0.0.1",
    ),
    Vector(
        "v1 header with a sub-resource",
        "PUT",
        "/examplebucket/nelson?acl",
        {**ALICE, "Authorization": "OSS ak:/afkugFbmWDQ967j1vr6zygBLQk="},
        IN_2022,
        host="127.0.0.1",
    ),
    Vector(
        "v1 header of a bucket",
        "GET",
        "/?resourceGroup&acl",
        {**DAY, "Authorization": "OSS ak:x3E5TgOvl/i7PN618s5mEvpJDYk="},
        IN_2022,
        host="examplebucket.oss-cn-hangzhou.aliyuncs.com",
    ),
    Vector(
        "v1 url",
        "GET",
        "/key?versionId=versionId&OSSAccessKeyId=ak&Expires=1699807420&Signature=dcLTea%2BYh9ApirQ8o8dOPqtvJXQ%3D",
        {},
        1699807420,
    ),
    Vector(
        "v1 url with token",
        "GET",
        "/key%2B123?versionId=versionId&OSSAccessKeyId=ak&Expires=1699808204&security-token=token"
        "&Signature=jzKYRrM5y6Br0dRFPaTGOsbrDhY%3D",
        {},
        1699808204,
        "token",
    ),
    Vector(
        "oss2, v1 header",
        "GET",
        f"{ODD}?versionId=x%2Fy",
        {**OF_OSS2, **WHEN, "Authorization": "OSS ak:bs9qRyhkTuOIgA9ApbsxTD0xP+0="},
        1702743657,
        host="127.0.0.1",
    ),
    Vector(
        "oss2, v1 url",
        "GET",
        f"{ODD}?versionId=x%2Fy&OSSAccessKeyId=ak&Expires=1702744257&Signature=%2FVBhk2U%2BUUkEpr%2FbcfhoA53RaII%3D",
        {"Range": "bytes=0-9"},
        1702744257,
        host="127.0.0.1",
    ),
    Vector(
        "oss2, v2 header",
        "GET",
        f"{ODD}?versionId=x%2Fy&prefix=",
        {
            **OF_OSS2,
            **WHEN,
            "Authorization": "OSS2 AccessKeyId:ak,AdditionalHeaders:range,"
            "Signature:Tw+RmiU5O73RFl7Gk+CJWmb20rqqXSKhtF0yvseZvkA=",
        },
        1702743657,
        host="127.0.0.1",
    ),
    Vector(
        "oss2, v2 url",
        "GET",
        f"{ODD}?versionId=x%2Fy&x-oss-signature-version=OSS2&x-oss-expires=1702744257&x-oss-access-key-id=ak"
        "&x-oss-additional-headers=range&x-oss-signature=rUicCv9nVIUHFfVAsCZKVa4eo8Q2nCUA4xlKPIMdAp0%3D",
        {"Range": "bytes=0-9"},
        1702744257,
        host="127.0.0.1",
    ),
    Vector(
        "oss2, v4 header",
        "GET",
        f"{ODD}?versionId=x%2Fy&prefix=",
        {
            **OF_OSS2,
            "x-oss-date": "20231216T162057Z",
            "x-oss-content-sha256": "UNSIGNED-PAYLOAD",
            "Authorization": "OSS4-HMAC-SHA256 Credential=ak/20231216/cn-hangzhou/oss/aliyun_v4_request, "
            "Signature=be49a86ecabf3c6356b72d49553115be69d3c789f488df34c53977741981d800",
        },
        1702743657,
        host="127.0.0.1",
    ),
    Vector(
        "oss2, v4 url",
        "GET",
        f"{ODD}?versionId=x%2Fy&x-oss-date=20231216T162057Z&x-oss-expires=600"
        "&x-oss-signature-version=OSS4-HMAC-SHA256"
        "&x-oss-credential=ak%2F20231216%2Fcn-hangzhou%2Foss%2Faliyun_v4_request&x-oss-additional-headers=range"
        "&x-oss-signature=6ebf066885ab6a70a92fd4dafaef7573517d66513106258fcd45523ab5e53340",
        {"Range": "bytes=0-9"},
        1702743657,
        host="127.0.0.1",
    ),
)


def proved(vector: Vector, known: SecretKey | None = None) -> SignedOss:
    target, headers = (
        parse_target(vector.raw, vector.host, DOMAINS),
        CIMultiDict({**vector.headers, "Host": vector.host}),
    )
    assert speaks_oss(target, headers)
    claim = read_claim(target, headers)
    assert not isinstance(claim, AnonymousClaim | ClaimV4 | ClaimV2)
    return verify_oss(claim, vector.method, target, headers, known or SecretKey("ak", "sk", vector.token), vector.now)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector.name))
def test_published_signatures_verify(vector: Vector) -> None:
    signed = proved(vector)
    assert signed.access_key == "ak"
    assert signed.version == f"V{vector.name.removeprefix('oss2, ')[1]}"
    assert signed.form == ("query" if "url" in vector.name else "header")
    assert signed.payload == "UNSIGNED-PAYLOAD"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: str(vector.name))
def test_published_signatures_need_the_secret(vector: Vector) -> None:
    with pytest.raises(S3Error) as refused:
        proved(vector, SecretKey("ak", "SK", vector.token))
    assert refused.value.code == "SignatureDoesNotMatch"


def test_every_form_has_a_vector() -> None:
    forms = {(signed.version, signed.form) for signed in map(proved, VECTORS)}
    assert forms == {(version, form) for version in ("V1", "V2", "V4") for form in ("header", "query")}
