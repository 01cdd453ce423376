"""Header lines: a name is a token in lower case, and no value ends the line."""

import pytest

from forebay.protocol.header_line import can_be_header


@pytest.mark.parametrize(("name", "value"), [("x-amz-meta-a", "b"), ("a!#$%&'*+.^_`|~09", ""), ("a", "\tb c\xe9")])
def test_a_token_and_a_value(name: str, value: str) -> None:
    assert can_be_header(name, value)


@pytest.mark.parametrize(
    ("name", "value"), [("", "b"), ("A", "b"), ("a b", "b"), ("a:", "b"), ("a\n", "b"), ("é", "b"), ("a", "b\r\nc: d")]
)
def test_what_is_no_header(name: str, value: str) -> None:
    assert not can_be_header(name, value)


@pytest.mark.parametrize("character", [*map(chr, range(9)), *map(chr, range(10, 32)), "\x7f"])
def test_no_value_has_a_control_character(character: str) -> None:
    assert not can_be_header("a", f"b{character}c")
