"""CORS by the rules of a bucket, as AWS documents them."""

import pytest

from forebay.policy.cors import VARY, cors_headers
from forebay.protocol.xml.cors_document import CorsRule

SITE = "https://app.example.com"
RULE = CorsRule(("https://*.example.com",), ("GET", "PUT"), ("x-amz-*", "authorization"), ("ETag",), "600")


def test_allowed_site_is_named_with_all_that_the_rule_has() -> None:
    assert cors_headers([RULE], SITE, "PUT", ["X-Amz-Date", " Authorization"]) == (
        ("Access-Control-Allow-Origin", SITE),
        ("Access-Control-Allow-Methods", "GET, PUT"),
        ("Access-Control-Allow-Headers", "x-amz-date, authorization"),
        ("Access-Control-Expose-Headers", "ETag"),
        ("Access-Control-Max-Age", "600"),
        ("Access-Control-Allow-Credentials", "true"),
        VARY,
    )


def test_rule_for_every_site_allows_no_credentials() -> None:
    headers = dict(cors_headers([CorsRule(("*",), ("GET",))], SITE, "GET") or ())
    assert headers["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in headers


@pytest.mark.parametrize(
    ("site", "method", "requested"),
    [
        ("https://example.com", "GET", []),  # the star stands for something between two dots
        ("https://app.example.com.evil", "GET", []),
        ("http://app.example.com", "GET", []),
        ("", "GET", []),
        (SITE, "DELETE", []),
        (SITE, "get", []),
        (SITE, "GET", ["x-amz-date", "x-other"]),
    ],
)
def test_anything_else_is_not_allowed(site: str, method: str, requested: list[str]) -> None:
    assert cors_headers([RULE], site, method, requested) is None


def test_first_rule_that_matches_decides() -> None:
    first = CorsRule((SITE,), ("GET",), max_age="1")
    second = CorsRule(("*",), ("GET", "HEAD"), ("*",), max_age="2")
    cases: list[tuple[str, list[str], str]] = [("GET", [], "1"), ("HEAD", [], "2"), ("GET", ["x-a"], "2")]
    for method, requested, age in cases:
        headers = dict(cors_headers([first, second], SITE, method, requested) or ())
        assert headers["Access-Control-Max-Age"] == age


def test_star_matches_no_overlap_of_its_sides() -> None:
    assert cors_headers([CorsRule(("ab*ba",), ("GET",))], "aba", "GET") is None
    assert cors_headers([CorsRule(("ab*ba",), ("GET",))], "abba", "GET") is not None
