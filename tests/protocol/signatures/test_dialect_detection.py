"""The dialect of a request: by its credential, else by its names."""

import pytest
from multidict import CIMultiDict

from forebay.protocol.signatures.dialect_detection import speaks_oss
from forebay.protocol.target import parse_target


def spoken(raw: str, **headers: str) -> bool:
    fields = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return speaks_oss(parse_target(raw, "h", ()), fields)


@pytest.mark.parametrize(
    "scheme", ["OSS ak:x", "OSS2 AccessKeyId:ak,Signature:x", "OSS4-HMAC-SHA256 Credential=ak", "OSS"]
)
@pytest.mark.parametrize("raw", ["/", "/b/k", "/b/k?x-amz-acl=a", "/b/k?X-Amz-Signature=a"])
def test_by_the_scheme(scheme: str, raw: str) -> None:
    assert spoken(raw, Authorization=scheme)
    assert spoken(raw, Authorization=scheme, x_amz_acl="private")


@pytest.mark.parametrize("scheme", ["AWS ak:x", "AWS4-HMAC-SHA256 Credential=ak", "AWS4-ECDSA-P256-SHA256 x"])
@pytest.mark.parametrize("raw", ["/b/k", "/b/k?x-oss-process=a", "/b/k?OSSAccessKeyId=a"])
def test_the_schemes_of_s3(scheme: str, raw: str) -> None:
    assert not spoken(raw, Authorization=scheme)
    assert not spoken(raw, Authorization=scheme, x_oss_date="20231216T162057Z")


@pytest.mark.parametrize(
    ("raw", "oss"),
    [
        ("/b/k?OSSAccessKeyId=a&Expires=1&Signature=x", True),
        ("/b/k?Signature=x&Expires=1&OSSAccessKeyId=a", True),
        ("/b/k?x-oss-signature=x", True),
        ("/b/k?x-oss-signature-version=OSS2", True),
        ("/b/k?x-oss-credential=x&x-amz-acl=private", True),
        ("/b/k?x-oss-access-key-id=x", True),
        ("/b/k?AWSAccessKeyId=a&Expires=1&Signature=x", False),
        ("/b/k?AWSAccessKeyId=a&x-oss-process=x", False),
        ("/b/k?X-Amz-Signature=a&x-oss-process=x", False),
        ("/b/k?Signature=x", False),
        ("/b/k", False),
        ("/b/k?acl", False),
        ("/b/k?x-oss-process=style/a", True),
        ("/b/k?X-OSS-Process=style/a", True),
        ("/b/k?x-oss-process=a&x-amz-acl=private", False),
        ("/b/k?x-id=GetObject", False),
    ],
)
def test_by_the_query(raw: str, oss: bool) -> None:
    assert spoken(raw) == oss


def test_by_the_headers() -> None:
    assert spoken("/b/k", X_Oss_Range_Behavior="standard")
    assert spoken("/b/k", x_oss_meta_a="b", Authorization="Bearer x")
    assert not spoken("/b/k", x_oss_meta_a="b", x_amz_date="20231216T162057Z")
    assert not spoken("/b/k?x-amz-acl=private", x_oss_meta_a="b")
    assert not spoken("/b/k", Authorization="Bearer x")
    assert not spoken("/b/k", Authorization="OSSX a")
    assert not spoken("/b/k", x_ossified="b")
