"""Conditional requests: every combination, in the order of RFC 9110 section 13.2.2."""

from itertools import product

import pytest
from multidict import CIMultiDict

from forebay.protocol.conditions import NOT_MODIFIED, PROCEED, PreconditionFailed, evaluate_conditions, range_applies

ETAG = '"9b2cf535f27731c974343645a3985328"'
MODIFIED = "Tue, 10 Nov 2026 10:00:00 GMT"
EARLIER = "Tue, 10 Nov 2026 09:59:59 GMT"
LATER = "Tue, 10 Nov 2026 10:00:01 GMT"


def evaluate(*pairs: tuple[str, str], etag: str = ETAG, modified: str = MODIFIED) -> object:
    return evaluate_conditions(CIMultiDict(pairs), etag, modified)


def test_every_combination_follows_the_rfc_order() -> None:
    conditions = {
        "If-Match": (None, ETAG, '"other"'),
        "If-Unmodified-Since": (None, MODIFIED, EARLIER),
        "If-None-Match": (None, '"other"', ETAG),
        "If-Modified-Since": (None, EARLIER, MODIFIED),
    }
    for state in product(range(3), repeat=4):
        # 0: absent, 1: present and true, 2: present and false
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
        assert evaluate(*pairs) == expected, pairs


def test_combinations_documented_by_amazon() -> None:
    assert evaluate(("If-Match", ETAG), ("If-Unmodified-Since", EARLIER)) == PROCEED
    assert evaluate(("If-None-Match", ETAG), ("If-Modified-Since", EARLIER)) == NOT_MODIFIED


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
def test_equal_tags_match_in_every_spelling(value: str) -> None:
    assert evaluate(("If-Match", value)) == PROCEED
    assert evaluate(("If-None-Match", value)) == NOT_MODIFIED


@pytest.mark.parametrize("value", ['"other"', "other", '"*"', f"x{ETAG}", '"', '""', ETAG[:-2] + '"', "W/*", '"a" b'])
def test_different_or_invalid_tags_do_not_match(value: str) -> None:
    assert evaluate(("If-Match", value)) == PreconditionFailed("If-Match")
    assert evaluate(("If-None-Match", value)) == PROCEED


def test_weak_tags_match_only_in_weak_comparison() -> None:
    for weak in (f"W/{ETAG}", f"W/{ETAG}".replace('"', "")):
        assert evaluate(("If-Match", weak)) == PreconditionFailed("If-Match")
        assert evaluate(("If-None-Match", weak)) == NOT_MODIFIED


def test_case_is_significant_unless_the_tag_is_a_digest() -> None:
    assert evaluate(("If-None-Match", '"abc"'), etag='"ABC"') == PROCEED
    multipart = '"1c787c506eabfb9b45eaaa8db039f4b2-2"'
    assert evaluate(("If-Match", multipart.upper()), etag=multipart) == PROCEED


def test_repeated_headers_form_one_list() -> None:
    assert evaluate(("If-None-Match", '"a"'), ("If-None-Match", ETAG)) == NOT_MODIFIED
    assert evaluate(("If-Match", '"a"'), ("If-Match", '"b"')) == PreconditionFailed("If-Match")


@pytest.mark.parametrize("empty", ["", "  ", ","])
def test_empty_condition_is_ignored(empty: str) -> None:
    assert evaluate(("If-Match", empty), ("If-Unmodified-Since", EARLIER)) == PreconditionFailed("If-Unmodified-Since")
    assert evaluate(("If-None-Match", empty), ("If-Modified-Since", MODIFIED)) == NOT_MODIFIED


@pytest.mark.parametrize("no_date", ["", "yesterday", "2026-11-10T10:00:00Z", "Tue, 10 Nov 2026 10:00:00"])
def test_invalid_date_is_ignored(no_date: str) -> None:
    assert evaluate(("If-Unmodified-Since", no_date)) == PROCEED
    assert evaluate(("If-Modified-Since", no_date)) == PROCEED


def test_dates_are_ignored_without_last_modified() -> None:
    for header in ("If-Unmodified-Since", "If-Modified-Since"):
        assert evaluate((header, EARLIER), modified="") == PROCEED
        assert evaluate((header, LATER), modified="") == PROCEED


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
def test_if_range_must_match_this_version_exactly(if_range: str | None, applies: bool) -> None:
    assert range_applies(if_range, ETAG, MODIFIED) is applies


def test_if_range_date_fails_without_last_modified() -> None:
    assert not range_applies(MODIFIED, ETAG, "")
