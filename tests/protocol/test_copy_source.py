"""The copy source: parsed by the rules of the request target, and encoded unambiguously."""

from urllib.parse import quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.core.names import ObjectName
from forebay.protocol.copy_source import CopySource, encode_copy_source, parse_copy_source

KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=100)


def read(*values: str) -> CopySource | None:
    return parse_copy_source(CIMultiDict(("X-Amz-Copy-Source", value) for value in values))


@pytest.mark.parametrize(
    ("raw", "key", "version"),
    [
        ("b/k", "k", None),
        ("/b/k", "k", None),
        ("b//k", "/k", None),
        ("b/a/../c", "a/../c", None),
        ("b/a%2Fb", "a/b", None),
        ("b%2Fa%2Fb", "a/b", None),
        ("%2Fb%2Fk", "k", None),
        ("b/a%252Fb", "a%2Fb", None),
        ("b/a+b%2Bc%20d", "a b+c d", None),
        # Partly encoded, or not at all.
        ("b/é", "é", None),
        ("b/a b", "a b", None),
        ("b/100%-sign %zz%4", "100%-sign %zz%4", None),
        ("b/k?versionId=3/L4kqtJlcpXroDTDmJ.rdKZA", "k", "3/L4kqtJlcpXroDTDmJ.rdKZA"),
        ("b/a%3Fb?versionId=null", "a?b", "null"),
    ],
)
def test_copy_source_is_decoded_once(raw: str, key: str, version: str | None) -> None:
    assert read(raw) == CopySource(ObjectName("b", key), version)


def test_request_without_a_copy_source() -> None:
    assert read() is None


@pytest.mark.parametrize(
    "raw",
    [
        "",
        "b",
        "b/",
        "/",
        "//k",
        "b/%00",
        "b/%FF",
        "../k",
        "a@b/k",
        "b/k?acl",
        "b/k?versionId=",
        "b/k?",
    ],
)
def test_malformed_copy_source_is_refused(raw: str) -> None:
    with pytest.raises(S3Error) as caught:
        read(raw)
    assert caught.value.code == "InvalidArgument"


def test_repeated_copy_source_is_refused() -> None:
    with pytest.raises(S3Error) as caught:
        read("b/k", "b/other")
    assert caught.value.code == "InvalidArgument"


@pytest.mark.parametrize(
    "raw", ["arn:aws:s3:eu-west-1:1:accesspoint/a/object/k", "arn%3Aaws%3As3%3A%3A%3Ab%2Fk", "ARN:x/k"]
)
def test_copy_source_arn_is_refused(raw: str) -> None:
    with pytest.raises(S3Error) as caught:
        read(raw)
    assert caught.value.code == "NotImplemented"


@given(KEYS, st.none() | st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1))
def test_encoded_copy_source_decodes_to_the_same_object(key: str, version: str | None) -> None:
    source = CopySource(ObjectName("b", key), version)
    encoded = encode_copy_source(source)
    assert read(encoded) == source
    # Without characters that servers decode differently: a plus, or an unescaped question mark.
    path, _, _ = encoded.partition("?")
    assert "+" not in encoded
    assert unquote(path) == f"b/{key}"


@given(KEYS)
def test_copy_source_accepts_every_escaping_of_a_key(key: str) -> None:
    for escaped in (quote(f"b/{key}", safe="/"), quote(f"b/{key}", safe=""), quote(f"/b/{key}", safe="")):
        assert read(escaped) == CopySource(ObjectName("b", key), None)
