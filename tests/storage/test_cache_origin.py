"""The origin of a cache: which spellings of an endpoint are one, and which names an origin has."""

import pytest

from forebay.storage.cache_origin import CacheOrigin, canonical_endpoint


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("https://S3.Example.COM", "https://s3.example.com"),
        ("HTTPS://s3.example.com:443/", "https://s3.example.com"),
        ("http://minio:80", "http://minio"),
        ("http://minio:0443", "http://minio:443"),
        ("http://minio:9000", "http://minio:9000"),
        ("https://[2001:DB8::0:1]:443", "https://[2001:db8::1]"),
        ("http://[::1]:9000", "http://[::1]:9000"),
    ],
)
def test_spellings_of_one_endpoint_are_one(spelling: str, canonical: str) -> None:
    assert canonical_endpoint(spelling) == canonical
    assert canonical_endpoint(canonical) == canonical


@pytest.mark.parametrize(
    "other",
    [
        "http://minio.example",
        "https://minio.example:80",
        "https://minio.example.",
        "https://minio.example:444",
        "https://minio.example.com",
        "https://minio",
    ],
)
def test_what_may_be_another_server_is_another_endpoint(other: str) -> None:
    assert canonical_endpoint(other) != canonical_endpoint("https://minio.example")


def test_an_origin_is_known_by_its_endpoint_and_its_name() -> None:
    unnamed, named = CacheOrigin.of("http://MINIO:80"), CacheOrigin.of("http://MINIO:80", "store")
    assert (unnamed.id, unnamed.names, str(unnamed)) == ("http://minio", ("http://minio",), "http://minio")
    assert (named.id, named.names) == ("store", ("http://minio", "store"))
    assert str(named) == "http://minio (cache_id store)"
