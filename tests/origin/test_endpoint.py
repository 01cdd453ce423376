"""The URLs of buckets and keys, and names that must not get into host or path."""

import pytest

from forebay.core.errors import S3Error, SettingsError
from forebay.origin.dialects import DIALECTS
from forebay.origin.endpoint import parse_endpoint
from forebay.origin.http.loopback_resolver import LoopbackResolver, system_name

AWS, MINIO, OSS = DIALECTS["aws"], DIALECTS["minio"], DIALECTS["oss"]


@pytest.mark.parametrize(
    ("endpoint", "dialect", "bucket", "host", "path"),
    [
        ("https://s3.eu-west-1.amazonaws.com", AWS, "images", "images.s3.eu-west-1.amazonaws.com", "/k"),
        ("https://s3.cn-north-1.amazonaws.com.cn/", AWS, "images", "images.s3.cn-north-1.amazonaws.com.cn", "/k"),
        ("https://s3.eu-west-1.amazonaws.com", AWS, "my.images", "s3.eu-west-1.amazonaws.com", "/my.images/k"),
        ("http://s3.eu-west-1.amazonaws.com", AWS, "my.images", "my.images.s3.eu-west-1.amazonaws.com", "/k"),
        ("https://s3.eu-west-1.amazonaws.com", AWS, "Old_Bucket", "s3.eu-west-1.amazonaws.com", "/Old_Bucket/k"),
        ("https://s3.eu-west-1.amazonaws.com", AWS, "evil.com/x", "s3.eu-west-1.amazonaws.com", "/evil.com%2Fx/k"),
        ("http://s3.eu-west-1.amazonaws.com", AWS, "a..b", "s3.eu-west-1.amazonaws.com", "/a..b/k"),
        ("https://amazonaws.com.example.org", AWS, "images", "amazonaws.com.example.org", "/images/k"),
        ("http://127.0.0.1:9000", AWS, "images", "127.0.0.1:9000", "/images/k"),
        ("http://[::1]:9000", MINIO, "images", "[::1]:9000", "/images/k"),
        ("https://s3.eu-west-1.amazonaws.com", MINIO, "images", "s3.eu-west-1.amazonaws.com", "/images/k"),
        ("https://store.example.org:443", MINIO, "images", "store.example.org", "/images/k"),
    ],
)
def test_addressing(endpoint: str, dialect: object, bucket: str, host: str, path: str) -> None:
    assert dialect in DIALECTS.values()
    address = parse_endpoint(endpoint, AWS if dialect is AWS else MINIO).url_of(bucket, "k", ())
    assert (address.host, address.raw_path) == (host, path)
    assert address.yarl.host_port_subcomponent == host
    assert address.yarl.raw_path_qs == path


def test_levels_and_query() -> None:
    endpoint = parse_endpoint("http://127.0.0.1:9000", MINIO)
    assert endpoint.url_of(None, None, ()).yarl.raw_path_qs == "/"
    assert endpoint.url_of("b", None, ()).yarl.raw_path_qs == "/b"
    assert endpoint.url_of("b", "", (("acl", ""),)).yarl.raw_path_qs == "/b/?acl="
    assert endpoint.url_of("b", "k", (("versionId", "a+b/c"),)).yarl.raw_path_qs == "/b/k?versionId=a%2Bb%2Fc"


@pytest.mark.parametrize(
    "endpoint",
    [
        "ftp://host",
        "host:9000",
        "https://",
        "https://user:hush@host",
        "https://host/prefix",
        "https://host/?x=1",
        "http://h:bad",
    ],
)
def test_refused(endpoint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        parse_endpoint(endpoint, MINIO)
    assert refused.value.where == "origin.endpoint"
    assert "hush" not in str(refused.value)


def test_an_oss_bucket_is_in_the_host_name() -> None:
    endpoint = parse_endpoint("https://oss-cn-hangzhou.aliyuncs.com", OSS)
    address = endpoint.url_of("images", "a/b c", (("uploads", ""), ("prefix", "x/y")))
    assert (address.host, address.raw_path) == ("images.oss-cn-hangzhou.aliyuncs.com", "/a/b%20c")
    assert address.yarl.raw_path_qs == "/a/b%20c?prefix=x%2Fy&uploads"
    assert endpoint.url_of(None, None, ()).host == "oss-cn-hangzhou.aliyuncs.com"


@pytest.mark.parametrize(
    "bucket", ["Upper", "dot.ted", "s3", "-a-", "evil.com/x", "under_score", "a" * 64, "ü" * 5, ""]
)
def test_an_invalid_oss_bucket_name_never_becomes_a_host(bucket: str) -> None:
    with pytest.raises(S3Error, match="InvalidBucketName"):
        parse_endpoint("https://oss-cn-hangzhou.aliyuncs.com", OSS).url_of(bucket, "k", ())


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9000", "https://[::1]"])
def test_an_ip_address_takes_no_oss_buckets(endpoint: str) -> None:
    with pytest.raises(SettingsError):
        parse_endpoint(endpoint, OSS)


@pytest.mark.parametrize(
    ("host", "known"),
    [
        ("bucket.localhost", "localhost"),
        ("a.b.LOCALHOST.", "localhost"),
        ("localhost", "localhost"),
        ("notlocalhost", "notlocalhost"),
        ("localhost.example.org", "localhost.example.org"),
    ],
)
def test_names_under_localhost_are_this_machine(host: str, known: str) -> None:
    assert system_name(host) == known


async def test_aiohttp_resolves_localhost_names_too() -> None:
    names = LoopbackResolver()
    assert {found["host"] for found in await names.resolve("bucket.localhost", 80)} == {"127.0.0.1"}
    await names.close()


@pytest.mark.parametrize(
    ("endpoint", "region", "authority"),
    [
        ("https://s3.us-east-1.amazonaws.com", "eu-west-1", "s3.eu-west-1.amazonaws.com"),
        ("https://s3.amazonaws.com", "eu-west-1", "s3.eu-west-1.amazonaws.com"),
        (
            "https://s3-fips.dualstack.us-east-1.amazonaws.com",
            "us-gov-east-1",
            "s3-fips.dualstack.us-gov-east-1.amazonaws.com",
        ),
        ("https://s3.cn-north-1.amazonaws.com.cn", "cn-northwest-1", "s3.cn-northwest-1.amazonaws.com.cn"),
        ("https://s3.cn-north-1.amazonaws.com.cn", "eu-west-1", "s3.cn-north-1.amazonaws.com.cn"),
        ("https://s3.us-east-1.amazonaws.com", "cn-north-1", "s3.us-east-1.amazonaws.com"),
        (
            "https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com",
            "eu-west-1",
            "bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com",
        ),
        ("https://s3.amazonaws.com.evil.test", "eu-west-1", "s3.amazonaws.com.evil.test"),
        ("http://127.0.0.1:9000", "eu-west-1", "127.0.0.1:9000"),
    ],
)
def test_another_region_is_another_host_of_amazon_only(endpoint: str, region: str, authority: str) -> None:
    parsed = parse_endpoint(endpoint, DIALECTS["aws"])
    assert parsed.authority_in(region) == authority
    assert parsed.url_of("b.c", "k", (), region).host == authority
