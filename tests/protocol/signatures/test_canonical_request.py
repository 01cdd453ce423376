from urllib.parse import quote, unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.signatures.canonical_request import (
    canonical_path,
    canonical_query,
    canonical_value,
    encode_path,
    encode_text,
)


@given(st.text())
def test_text_is_encoded_as_by_urllib(text: str) -> None:
    surrogates = text.encode("utf-8", "surrogatepass").decode("utf-8", "ignore")
    assert encode_text(surrogates) == quote(surrogates, safe="")
    assert encode_path(surrogates) == quote(surrogates, safe="/")


@given(st.binary())
def test_every_byte_survives_encoding(raw: bytes) -> None:
    assert unquote_to_bytes(encode_text(raw.decode("utf-8", "surrogateescape"))) == raw


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        ("", "/"),
        ("/", "/"),
        ("/a/b-c_d.e~f", "/a/b-c_d.e~f"),
        ("/a%2fb", "/a%2Fb"),
        ("/a%2Fb/%3D", "/a%2Fb/%3D"),
        ("/%41%2D%7e", "/A-~"),
        ("/a=b+c$d", "/a%3Db%2Bc%24d"),
        ("//a//../b/", "//a//../b/"),
        ("/%25%32%46", "/%252F"),
        ("/%E2%82%AC/€", "/%E2%82%AC/%E2%82%AC"),
    ],
)
def test_path_escapes_are_normalised_not_decoded(raw: str, canonical: str) -> None:
    assert canonical_path(raw) == canonical


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="%")), st.data())
def test_canonical_path_does_not_depend_on_escaping(path: str, data: st.DataObject) -> None:
    raw = ""
    for character in "/" + path:
        if character == "/" or (character.isascii() and data.draw(st.booleans())):
            raw += character
        else:
            escaped = "".join(f"%{byte:02x}" for byte in character.encode())
            raw += escaped if data.draw(st.booleans()) else escaped.upper()
    assert canonical_path(raw) == quote("/" + path, safe="/")


def test_query_is_sorted_by_encoded_name_and_value() -> None:
    pairs = [("b", "2"), ("a-b", ""), ("a", "z"), ("a", "/ +"), ("é", "&=")]
    assert canonical_query(pairs) == "%C3%A9=%26%3D&a=%2F%20%2B&a=z&a-b=&b=2"


def test_header_values_are_trimmed_and_joined() -> None:
    assert canonical_value(["  a  b\t c "]) == "a b c"
    assert canonical_value([" a ", "b"]) == "a,b"
    assert canonical_value([""]) == ""
