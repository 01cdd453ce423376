"""URIs of objects and prefixes."""

import pytest

from forebay_client.object_uri import split_uri


@pytest.mark.parametrize(
    ("uri", "parts"),
    [
        ("s3://b/k/l", ("s3", "b", "k/l")),
        ("oss://b/k%20", ("oss", "b", "k%20")),
        ("forebay://b/k://l", ("forebay", "b", "k://l")),
        ("s3://b", ("s3", "b", "")),
        ("s3:///k", None),
        ("/b/k", None),
        ("http://b/k", None),
        ("", None),
    ],
)
def test_a_uri_has_a_scheme_and_a_bucket(uri: str, parts: tuple[str, str, str] | None) -> None:
    assert split_uri(uri) == parts
