"""Our requests to OSS are signed as the vendor's SDKs sign. Three opinions: the SDKs' published signatures, the
stand-in's computation, which passes them, and Forebay's, which has to agree with it."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from forebay.protocol.signatures.canonical_request import encode_path
from forebay.protocol.signatures.oss_canonical_request import canonical_query
from forebay.protocol.signatures.oss_signing import sign_oss_request
from forebay.protocol.signatures.signing_key import SecretKey
from harness.oss.authority import OssAuthority, signature
from harness.oss.oss_request import parse
from harness.reference_sigv4 import Secret

QUERY = "param1=value1&%2Bparam1=value3&%7Cparam1=value4&%2Bparam2&%7Cparam2&param2"
HEADERS = {"x-oss-head1": "value", "abc": "value", "ZAbc": "value", "XYZ": "value", "content-type": "text/plain"}


# https://github.com/aliyun/alibabacloud-oss-python-sdk-v2/blob/master/tests/unit/signer/test_v4.py
@pytest.mark.parametrize(
    ("timestamp", "token", "additional", "expected"),
    [
        ("20231216T162057Z", None, [], "e21d18daa82167720f9b1047ae7e7f1ce7cb77a31e8203a7d5f4624fa0284afe"),
        ("20231217T034736Z", "token", [], "b94a3f999cf85bcdc00d332fbd3734ba03e48382c36fa4d5af5df817395bd9ea"),
        (
            "20231216T172512Z",
            None,
            ["abc", "zabc"],
            "4a4183c187c07c8947db7620deb0a6b38d9fbdd34187b6dbaccb316fa251212f",
        ),
    ],
)
def test_the_test_origins_signatures_match_published_ones(
    timestamp: str, token: str | None, additional: list[str], expected: str
) -> None:
    headers = CIMultiDict(HEADERS)
    headers["Host"] = "bucket.oss-cn-hangzhou.aliyuncs.com"
    headers["x-oss-content-sha256"], headers["x-oss-date"] = "UNSIGNED-PAYLOAD", timestamp
    if token is not None:
        headers["x-oss-security-token"] = token
    target = f"/1234%2B-/123/1.txt?{QUERY}"
    parsed = parse("PUT", target, CIMultiDictProxy(headers), "oss-cn-hangzhou.aliyuncs.com")
    assert signature(Secret("ak", "sk", "cn-hangzhou", token), timestamp, parsed, additional) == expected


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@given(
    st.sampled_from(["GET", "HEAD", "PUT", "POST", "DELETE"]),
    st.one_of(st.none(), TEXT),
    st.dictionaries(TEXT, st.text(st.characters(codec="utf-8"), max_size=20), max_size=4),
    st.one_of(st.none(), st.just("a-token")),
    st.sampled_from([(), (("content-type", "a/b"),), (("x-oss-meta-a", " b "), ("content-md5", "x"), ("range", "y"))]),
    st.integers(0, 4_000_000_000),
)
def test_the_request_sent_is_the_one_signed(
    method: str,
    key: str | None,
    query: dict[str, str],
    token: str | None,
    more: tuple[tuple[str, str], ...],
    now: int,
) -> None:
    secret, host = Secret("ak", "sk", "cn-hangzhou", token), "bucket.oss-cn-hangzhou.aliyuncs.com:8080"
    pairs = tuple(query.items())
    added = sign_oss_request(
        method, host, "bucket", key, pairs, dict(more), SecretKey("ak", "sk", token), secret.region, now
    )
    headers = CIMultiDict([("Host", host), ("Date", formatdate(now)), *more, *added.items()])
    target = f"/{encode_path(key or '')}" + (f"?{canonical_query(pairs)}" if pairs else "")
    parsed = parse(method, target, CIMultiDictProxy(headers), "oss-cn-hangzhou.aliyuncs.com")
    assert (parsed.bucket, parsed.key) == ("bucket", key)
    OssAuthority({"ak": secret}, lambda: now).verify(parsed)


def test_a_header_of_the_signature_is_refused() -> None:
    with pytest.raises(ValueError, match="x-oss-date"):
        sign_oss_request("GET", "h", "b", "k", (), {"x-oss-date": "1"}, SecretKey("a", "s"), "r", 0)


def test_a_name_without_a_value_has_no_equals_sign() -> None:
    assert canonical_query((("uploads", ""), ("prefix", "a/b c"))) == "prefix=a%2Fb%20c&uploads"
