"""Path patterns: what they match, what they cover, and that no key makes them slow."""

import re
from typing import SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.policy.path_patterns import MAX_REMEMBERED_STEPS, Pattern

MATCHES = [
    # pattern, path, matched
    ("datasets/**", "datasets/a", True),
    ("datasets/**", "datasets/a/b/c.bin", True),
    ("datasets/**", "datasets-other/a", False),
    ("datasets/**", "other/datasets/a", False),
    ("datasets/*", "datasets/a", True),
    ("datasets/*", "datasets/a/b", False),
    ("datasets/x", "datasets/x", True),
    ("datasets/x", "datasets/xy", False),
    ("datasets/x", "datasets/", False),
    ("**", "a/b", True),
    ("*/tmp/**", "bucket/tmp/x", True),
    ("*/tmp/**", "bucket/a/tmp/x", False),
    ("**/*.json", "bucket/a.json", True),
    ("**/*.json", "bucket/a/b/c.json", True),
    ("**/*.json", "bucket/a.json.gz", False),
    ("b/**/x", "b/x", True),
    ("b/**/x", "b/1/2/x", True),
    ("b/**/x", "b/1x", False),
    ("b/**/x", "bx", False),
    ("b/a**z", "b/a/1/z", True),
    ("b/a**z", "b/az", True),
    ("b/**/**/x", "b/x", True),
    ("b/**/*", "b/1/2", True),
    ("logs-?/x", "logs-1/x", True),
    ("logs-?/x", "logs-/x", False),
    ("b/?", "b//", False),
    ("b/[ab]", "b/a", False),
    ("b/[ab]", "b/[ab]", True),
    ("b/{a,b}", "b/a", False),
    ("b/a\\*", "b/a\\x", True),
    ("b/a.c", "b/abc", False),
    ("b/**", "b/\n\n", True),
    ("b/*x", "b/\nx", True),
    ("b/../c", "b/../c", True),
    ("b/c", "b/../c", False),
    ("b//x", "b/x", False),
    ("b//x", "b//x", True),
    ("B/x", "b/x", False),
    ("b/\u00e9", "b/e\u0301", False),
    ("b/ab*ba", "b/aba", False),
]


@pytest.mark.parametrize(("pattern", "path", "matched"), MATCHES)
def test_matches(pattern: str, path: str, matched: bool) -> None:
    assert Pattern(pattern).matches(path) is matched


@pytest.mark.parametrize(
    ("pattern", "mention"),
    [
        ("", "empty"),
        ("datasets", "datasets/**"),
        ("datasets/", "datasets/**"),
        ("datasets*", "no object"),
        ("a/***", "three stars"),
        ("/datasets/**", "slash"),
        ("a/\0", "NUL"),
        ("a/" + "b" * 3000, "2048"),
    ],
)
def test_mistakes_are_refused_with_the_reason(pattern: str, mention: str) -> None:
    with pytest.raises(ValueError, match=re.escape(mention)):
        Pattern(pattern)


# Few characters, so that patterns and paths often agree.
wildcards = st.lists(st.sampled_from(["a", "b", "/", "*", "**", "**/", "?", "/**/"]), max_size=8)
patterns = wildcards.map("".join).filter(lambda text: "***" not in text).map(lambda text: f"b/{text}x")
paths = st.text("abx/", max_size=12).map(lambda text: f"b/{text}")


def reference(pattern: str) -> re.Pattern[str]:
    """The same language as a backtracking expression: what the linear matcher is held against."""
    expression, position = "", 0
    while position < len(pattern):
        if pattern.startswith("**/", position) and (position == 0 or pattern[position - 1] == "/"):
            expression, position = expression + "(?:.*/)?", position + 3
        elif pattern.startswith("**", position):
            expression, position = expression + ".*", position + 2
        else:
            one = pattern[position]
            expression += "[^/]*" if one == "*" else "[^/]" if one == "?" else re.escape(one)
            position += 1
    return re.compile(expression, re.DOTALL)


@given(patterns, paths)
def test_matches_as_the_reference_does(pattern: str, path: str) -> None:
    for text in (pattern, pattern[:-1] + "*", pattern[:-1]):
        if "***" in text or text == "b/":
            continue
        assert Pattern(text).matches(path) == bool(reference(text).fullmatch(path))


class CountedPath(str):
    """A path that counts how often a character of it was looked at."""

    looks = 0

    def __getitem__(self, position: SupportsIndex | slice) -> str:
        self.looks += 1
        return super().__getitem__(position)


@pytest.mark.parametrize(
    "pattern", ["b/" + "*a" * 20 + "*!z", "b/" + "**a" * 20 + "**!z", "b/**a*b**a*b**/*a?b**/x*!z", "**?" * 30 + "!z"]
)
@pytest.mark.parametrize("key", ["a" * 1021, "ab" * 510, "a/" * 510, "".join(chr(256 + i) for i in range(1000))])
def test_one_step_a_character_whatever_the_key(pattern: str, key: str) -> None:
    # The suffix agrees, so the comparison of the ends can't spare the steps.
    path = CountedPath(f"b/{key}z")
    Pattern(pattern).matches(path)
    assert path.looks <= len(path)


def test_what_is_remembered_is_bounded() -> None:
    pattern = Pattern("b/*a*!")
    for start in range(0, 3 * MAX_REMEMBERED_STEPS, 500):
        pattern.matches("b/" + "".join(chr(0x4E00 + start + i) for i in range(500)) + "!")
    assert len(pattern._steps) <= MAX_REMEMBERED_STEPS  # noqa: SLF001 # the bound is of what nobody else sees


COVERS = [
    ("datasets/**", "datasets/", True),
    ("datasets/**", "datasets/a/b", True),
    ("datasets/**", "datasets", False),
    ("datasets/**", "", False),
    ("datasets/a/**", "datasets/", False),
    ("datasets/a/**", "datasets/a", False),
    ("datasets/a/**", "datasets/a/", True),
    ("datasets/a**", "datasets/a", True),
    ("datasets/*", "datasets/", False),
    ("datasets/**/*", "datasets/", True),
    ("datasets/**/x", "datasets/", False),
    ("datasets/x", "datasets/x", False),
    ("*/x/**", "b/x/", True),
    ("**", "", True),
    ("**", "b/", True),
    ("*/**", "b/", True),
]


@pytest.mark.parametrize(("pattern", "prefix", "covered"), COVERS)
def test_covers_prefix(pattern: str, prefix: str, covered: bool) -> None:
    assert Pattern(pattern).covers_prefix(prefix) is covered


@given(patterns, paths, st.text("abx/!", max_size=6))
def test_what_is_covered_is_matched(pattern: str, prefix: str, rest: str) -> None:
    for text in (pattern, pattern[:-1] + "/**", pattern + "**"):
        if "***" not in text and Pattern(text).covers_prefix(prefix):
            assert Pattern(text).matches(prefix + rest)


@pytest.mark.parametrize(
    ("pattern", "prefix", "reached"),
    [
        ("datasets/a/b", "datasets/", True),
        ("datasets/**", "datasets/", True),
        ("*/x", "datasets/", True),
        ("**", "datasets/", True),
        ("other/**", "datasets/", False),
        ("datasets/**", "data/", False),
        ("data/**", "datasets/", False),
    ],
)
def test_reaches_into(pattern: str, prefix: str, reached: bool) -> None:
    assert Pattern(pattern).reaches_into(prefix) is reached


@given(patterns, paths, st.text("abx/", min_size=1, max_size=6))
def test_what_is_matched_was_reached(pattern: str, prefix: str, rest: str) -> None:
    if Pattern(pattern).matches(prefix + rest):
        assert Pattern(pattern).reaches_into(prefix)


def test_equal_by_text() -> None:
    assert Pattern("a/**") == Pattern("a/**") != Pattern("b/**")
    assert len({Pattern("a/**"), Pattern("a/**")}) == 1
    assert repr(Pattern("a/**")) == "Pattern('a/**')"
