"""Hoisted headers: only the query of a presigned URL contains headers."""

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.protocol.hoisted_headers import hoist_query_headers
from forebay.protocol.target import parse_target

V4 = "X-Amz-Algorithm=a&X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Expires=1&X-Amz-SignedHeaders=host&X-Amz-Signature=s"
V2 = "AWSAccessKeyId=a&Expires=1&Signature=s"


def hoist(query: str, **headers: str) -> tuple[tuple[tuple[str, str], ...], dict[str, str]]:
    fields = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    target, found = hoist_query_headers(parse_target(f"/b/k?{query}", "", []), fields)
    return target.query, dict(found.items())


@pytest.mark.parametrize("signature", [V4, V2])
def test_headers_are_hoisted_without_the_signature(signature: str) -> None:
    query, headers = hoist(f"{signature}&X-Amz-Acl=private&x-amz-meta-a=b%20c&versionId=v&x-id=GetObject", Range="r")
    assert query == (("versionId", "v"), ("x-id", "GetObject"))
    assert headers == {"Range": "r", "x-amz-acl": "private", "x-amz-meta-a": "b c"}


def test_version_2_hoists_content_headers() -> None:
    assert hoist(f"{V2}&content-type=t%2Ft")[1] == {"content-type": "t/t"}
    assert hoist(f"{V4}&content-type=t%2Ft") == ((("content-type", "t/t"),), {})


def test_unsigned_query_is_unchanged() -> None:
    target, headers = parse_target("/b/k?x-amz-acl=private", "", []), CIMultiDict({"a": "b"})
    assert hoist_query_headers(target, headers) == (target, headers)


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("x-amz-meta-a=b%0D%0Ax:y", {}),
        ("x-amz-meta-a=b%0A", {}),
        ("x-amz-meta-%0Aa=b", {}),
        ("x-amz-meta-a:=b", {}),
        ("x-amz-meta-a%20b=b", {}),
        ("x-amz-acl=a", {"x_amz_acl": "b"}),
        ("x-amz-acl=a&X-Amz-Acl=b", {}),
    ],
)
def test_invalid_or_contradicting_header_is_refused(query: str, headers: dict[str, str]) -> None:
    with pytest.raises(S3Error) as refusal:
        hoist(f"{V4}&{query}", **headers)
    assert refusal.value.code == "InvalidArgument"


def test_equal_header_and_parameter_become_one() -> None:
    assert hoist(f"{V4}&x-amz-acl=a", x_amz_acl="a")[1] == {"x-amz-acl": "a"}
