"""Conditional requests: every combination against the order that RFC 9110 section 13.2.2 lays down."""

from itertools import product

import pytest
from multidict import CIMultiDict

from forebay.protocol.conditions import NOT_MODIFIED, PROCEED, PreconditionFailed, evaluate_conditions, range_applies

ETAG = '"9b2cf535f27731c974343645a3985328"'
MODIFIED = "Tue, 10 Nov 2026 10:00:00 GMT"
EARLIER = "Tue, 10 Nov 2026 09:59:59 GMT"
LATER = "Tue, 10 Nov 2026 10:00:01 GMT"


def judge(*pairs: tuple[str, str], etag: str = ETAG, modified: str = MODIFIED) -> object:
    return evaluate_conditions(CIMultiDict(pairs), etag, modified)


def test_every_combination() -> None:
    conditions = {
        "If-Match": (None, ETAG, '"other"'),
        "If-Unmodified-Since": (None, MODIFIED, EARLIER),
        "If-None-Match": (None, '"other"', ETAG),
        "If-Modified-Since": (None, EARLIER, MODIFIED),
    }
    for state in product(range(3), repeat=4):
        # 0: not given, 1: given and true, 2: given and false
        match, unmodified, none_match, modified = state
        expected: object = PROCEED
        if match == 2:
            expected = PreconditionFailed("If-Match")
        elif match == 0 and unmodified == 2:
            expected = PreconditionFailed("If-Unmodified-Since")
        elif none_match == 2 or (none_match == 0 and modified == 2):
            expected = NOT_MODIFIED
        pairs = [
            (name, value)
            for (name, values), chosen in zip(conditions.items(), state, strict=True)
            if (value := values[chosen]) is not None
        ]
        assert judge(*pairs) == expected, pairs


def test_the_two_combinations_that_amazon_documents() -> None:
    assert judge(("If-Match", ETAG), ("If-Unmodified-Since", EARLIER)) == PROCEED
    assert judge(("If-None-Match", ETAG), ("If-Modified-Since", EARLIER)) == NOT_MODIFIED


@pytest.mark.parametrize(
    "value",
    [
        "*",
        ETAG,
        ETAG.strip('"'),
        ETAG.upper(),
        ETAG.strip('"').upper(),
        f'"a", {ETAG}',
        f'"a,b",{ETAG},"c"',
        f"a , {ETAG}",
        f" {ETAG} ",
        f",{ETAG},",
    ],
)
def test_tags_that_match(value: str) -> None:
    assert judge(("If-Match", value)) == PROCEED
    assert judge(("If-None-Match", value)) == NOT_MODIFIED


@pytest.mark.parametrize("value", ['"other"', "other", '"*"', f"x{ETAG}", '"', '""', ETAG[:-2] + '"', "W/*", '"a" b'])
def test_tags_that_do_not_match(value: str) -> None:
    assert judge(("If-Match", value)) == PreconditionFailed("If-Match")
    assert judge(("If-None-Match", value)) == PROCEED


def test_weak_tags_match_only_where_comparison_is_weak() -> None:
    for weak in (f"W/{ETAG}", f"W/{ETAG}".replace('"', "")):
        assert judge(("If-Match", weak)) == PreconditionFailed("If-Match")
        assert judge(("If-None-Match", weak)) == NOT_MODIFIED


def test_case_counts_unless_the_tag_is_a_digest() -> None:
    assert judge(("If-None-Match", '"abc"'), etag='"ABC"') == PROCEED
    multipart = '"1c787c506eabfb9b45eaaa8db039f4b2-2"'
    assert judge(("If-Match", multipart.upper()), etag=multipart) == PROCEED


def test_several_headers_are_one_list() -> None:
    assert judge(("If-None-Match", '"a"'), ("If-None-Match", ETAG)) == NOT_MODIFIED
    assert judge(("If-Match", '"a"'), ("If-Match", '"b"')) == PreconditionFailed("If-Match")


@pytest.mark.parametrize("nothing", ["", "  ", ","])
def test_an_empty_condition_is_none(nothing: str) -> None:
    assert judge(("If-Match", nothing), ("If-Unmodified-Since", EARLIER)) == PreconditionFailed("If-Unmodified-Since")
    assert judge(("If-None-Match", nothing), ("If-Modified-Since", MODIFIED)) == NOT_MODIFIED


@pytest.mark.parametrize("no_date", ["", "yesterday", "2026-11-10T10:00:00Z", "Tue, 10 Nov 2026 10:00:00"])
def test_a_date_that_is_none_is_ignored(no_date: str) -> None:
    assert judge(("If-Unmodified-Since", no_date)) == PROCEED
    assert judge(("If-Modified-Since", no_date)) == PROCEED


def test_dates_are_ignored_where_the_object_has_none() -> None:
    for header in ("If-Unmodified-Since", "If-Modified-Since"):
        assert judge((header, EARLIER), modified="") == PROCEED
        assert judge((header, LATER), modified="") == PROCEED


@pytest.mark.parametrize(
    ("if_range", "applies"),
    [
        (None, True),
        (ETAG, True),
        (ETAG.strip('"').upper(), True),
        (MODIFIED, True),
        ("Tuesday, 10-Nov-26 10:00:00 GMT", True),
        ('"other"', False),
        (f"W/{ETAG}", False),
        (EARLIER, False),
        (LATER, False),
        ("", False),
        ("*", False),
        ("yesterday", False),
        (f'"other", {ETAG}', False),
    ],
)
def test_if_range_names_exactly_this_version(if_range: str | None, applies: bool) -> None:
    assert range_applies(if_range, ETAG, MODIFIED) is applies


def test_if_range_with_a_date_needs_one_to_compare_with() -> None:
    assert not range_applies(MODIFIED, ETAG, "")
