"""The target of a request: decoded once, without ambiguity."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.protocol.target import Target, check_key, parse_target

KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200)


def parse(raw: str, host: str = "127.0.0.1:9000", domains: tuple[str, ...] = ()) -> Target:
    return parse_target(raw, host, domains)


def refusal(raw: str, host: str = "", domains: tuple[str, ...] = ()) -> str:
    with pytest.raises(S3Error) as caught:
        parse_target(raw, host, domains)
    return caught.value.code


def escape_all(key: str) -> str:
    return "".join(f"%{byte:02X}" for byte in key.encode())


@given(KEYS)
def test_every_escaping_of_a_key_decodes_to_it(key: str) -> None:
    for raw in (quote(key, safe="/~"), quote(key, safe=""), escape_all(key), quote(key, safe="/+!*'()")):
        target = parse(f"/bucket/{raw}")
        assert target.name == ("bucket", key)
        # Rules, grants, cache and origin use this one value.
        assert target.name.path == f"bucket/{key}"
        hosted = parse(f"/{raw}", "bucket.s3.test", ("s3.test",))
        assert hosted.name == target.name


@given(st.text(st.characters(min_codepoint=0, max_codepoint=0x17F), max_size=40))
def test_any_target_is_decoded_once_or_refused(raw: str) -> None:
    try:
        target = parse("/" + raw)
    except S3Error:
        return
    if target.key is not None:
        again = parse(f"/b/{quote(target.key, safe='/')}")
        assert again.key == target.key


@pytest.mark.parametrize(
    ("raw", "bucket", "key"),
    [
        ("/", None, None),
        ("/?x-id=ListBuckets", None, None),
        ("/b", "b", None),
        ("/b/", "b", None),
        ("/b/k", "b", "k"),
        ("/b//k", "b", "/k"),
        ("/b/k/", "b", "k/"),
        ("/b/a//b", "b", "a//b"),
        ("/b/a%2Fb", "b", "a/b"),
        ("/b/%2Fa", "b", "/a"),
        ("/b/a%252Fb", "b", "a%2Fb"),
        ("/b/../c", "b", "../c"),
        ("/b/..", "b", ".."),
        ("/b/./x", "b", "./x"),
        ("/b/%2e%2e/x", "b", "../x"),
        ("/b/a+b", "b", "a+b"),
        ("/b/a%20b", "b", "a b"),
        ("/b/a%3Fb", "b", "a?b"),
        ("/b/a\\b", "b", "a\\b"),
        ("/b/%C3%A9", "b", "é"),
        ("/b/%0A", "b", "\n"),
        ("/tenant:b/k", "tenant:b", "k"),
    ],
)
def test_path_style_bucket_and_key(raw: str, bucket: str | None, key: str | None) -> None:
    target = parse(raw)
    assert (target.bucket, target.key) == (bucket, key)


def test_raw_target_is_kept_for_signatures() -> None:
    target = parse("/b/a%2Fb%20c?prefix=%2F&acl")
    assert (target.raw_path, target.raw_query) == ("/b/a%2Fb%20c", "prefix=%2F&acl")


def test_query_is_decoded_in_order() -> None:
    target = parse("/b?acl&prefix=a+b%2Bc&empty=&&=x&q=a=b?c&%61=1")
    assert target.query == (("acl", ""), ("prefix", "a b+c"), ("empty", ""), ("", "x"), ("q", "a=b?c"), ("a", "1"))
    assert target.param("acl") == ""
    assert target.param("prefix") == "a b+c"
    assert target.param("Prefix") is None


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "*",
        "b/k",
        "http://host/b/k",
        "host:443",
        "/b/k#f",
        "/b/a b",
        "/b/é",
        "/b/\x00",
        "/b/\x7f",
        "/b/%",
        "/b/%4",
        "/b/%zz",
        "/b/%00",
        "/b/%FF",
        "/b/%C3",
        "/b/%ED%A0%80",
        "/b/%C0%AF",
        "/b/k?a=%",
        "/b/k?%FF",
        "/b/k?a=%00",
        "/%zz/k",
    ],
)
def test_ambiguous_target_is_an_invalid_uri(raw: str) -> None:
    assert refusal(raw) == "InvalidURI"


@pytest.mark.parametrize(
    "bucket",
    [
        "",
        "a%2Fb",
        ".",
        "..",
        "%2e%2e",
        "a%0Ab",
        "a%20b",
        "a%3Fb",
        "a%23b",
        "a@b",
        "a%5Cb",
        "a%25b",
        "[a]",
        "a%C2%85b",
        "b" * 256,
    ],
)
def test_unsafe_bucket_name_is_refused(bucket: str) -> None:
    assert refusal(f"/{bucket}/k") == "InvalidBucketName"


@pytest.mark.parametrize(
    ("host", "raw", "bucket", "key"),
    [
        ("data.example.com", "/a/b", "datasets", "a/b"),
        ("DATA.Example.com.:9000", "/a%2Fb", "datasets", "a/b"),
        ("data.example.com", "/", "datasets", None),
        ("data.example.com", "/bucket/k?acl", "datasets", "bucket/k"),
        ("x.forebay.internal", "/k", "other", "k"),  # a CNAME within a domain
        ("y.forebay.internal", "/k", "y", "k"),
        ("forebay.internal", "/b/k", "b", "k"),
        ("sub.data.example.com", "/b/k", "b", "k"),
        ("xdata.example.com", "/b/k", "b", "k"),
        ("bucket.oss-cn-hangzhou.aliyuncs.com", "/dir/k", "bucket", "dir/k"),
        ("oss-cn-hangzhou.aliyuncs.com:80", "/b/k", "b", "k"),
        ("oss-cn-beijing.aliyuncs.com", "/b/k", "b", "k"),
        ("127.0.0.1:9000", "/b/a%2Fk", "b", "a/k"),
        ("[::1]:9000", "/b/k", "b", "k"),
        ("localhost:9000", "/b/k", "b", "k"),
        ("", "/b/k", "b", "k"),
    ],
)
def test_host_selects_the_bucket_by_domain_or_cname(host: str, raw: str, bucket: str, key: str | None) -> None:
    domains = ("forebay.internal", "oss-cn-hangzhou.aliyuncs.com")
    cnames = {"data.example.com": "datasets", "x.forebay.internal": "other"}
    target = parse_target(raw, host, domains, cnames)
    assert (target.bucket, target.key) == (bucket, key)
    if "forebay" not in host and "aliyuncs" not in host:
        assert parse_target(raw, host, (), cnames) == target


def test_malformed_host_is_refused_with_cnames() -> None:
    with pytest.raises(S3Error) as refused:
        parse_target("/b/k", "data.example.com/x", (), {"data.example.com": "datasets"})
    assert refused.value.code == "InvalidURI"


def test_key_length_is_limited_in_bytes() -> None:
    assert parse("/b/" + "k" * 1024).key == "k" * 1024
    assert parse("/b/" + quote("é" * 512)).key == "é" * 512
    assert refusal("/b/" + "k" * 1025) == "KeyTooLongError"
    assert refusal("/b/" + quote("é" * 513)) == "KeyTooLongError"
    with pytest.raises(S3Error):
        check_key("")


DOMAINS = ("forebay.internal", "Eu.Forebay.Internal", "127.0.0.1")


@pytest.mark.parametrize(
    ("host", "bucket"),
    [
        ("data.forebay.internal", "data"),
        ("data.forebay.internal:9000", "data"),
        ("DATA.Forebay.INTERNAL", "data"),
        ("data.forebay.internal.", "data"),
        ("a.b.forebay.internal", "a.b"),
        ("data.eu.forebay.internal", "data"),  # the longest domain wins
        ("bucket.127.0.0.1:9000", "bucket"),
    ],
)
def test_virtual_hosted_bucket_and_key(host: str, bucket: str) -> None:
    assert parse("/path/k", host, DOMAINS).name == ObjectName(bucket, "path/k")
    assert parse("//k", host, DOMAINS).key == "/k"
    listed = parse("/?list-type=2", host, DOMAINS)
    assert (listed.bucket, listed.key) == (bucket, None)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "forebay.internal",
        "eu.forebay.internal",
        "127.0.0.1:9000",
        "localhost:9000",
        "[::1]:9000",
        "[::1]",
        "xforebay.internal",
        "other.example",
    ],
)
def test_other_hosts_are_path_style(host: str) -> None:
    assert parse("/b/k", host, DOMAINS).name == ("b", "k")


@pytest.mark.parametrize("host", ["a:b:c", "a.forebay.internal:x", "é.forebay.internal", "a/b.forebay.internal", "a@b"])
def test_malformed_host_is_refused(host: str) -> None:
    assert refusal("/k", host, DOMAINS) == "InvalidURI"


def test_empty_bucket_in_the_host_is_refused() -> None:
    assert refusal("/k", ".forebay.internal", DOMAINS) == "InvalidBucketName"
    assert refusal("/k", "..forebay.internal", DOMAINS) == "InvalidBucketName"


def test_target_without_a_key_has_no_name() -> None:
    with pytest.raises(ValueError, match="not an object"):
        _ = parse("/b").name
