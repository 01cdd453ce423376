"""Completions at the origin: which ones are, and what their clients are answered."""

import pytest
from multidict import CIMultiDict

from forebay.core.errors import S3Error
from forebay.core.heads import HeaderPairs
from forebay.write.back.drain.origin_completion import conditions_of, is_for_origin


@pytest.mark.parametrize(
    ("headers", "conditions"),
    [
        ({}, None),
        ({"x-forebay-durability": "local"}, None),
        ({"X-Forebay-Durability": "origin"}, (("x-forebay-durability", "origin"),)),
        ({"If-None-Match": "*"}, (("If-None-Match", "*"),)),
        (
            {"if-match": '"e"', "x-forebay-durability": "origin"},
            (("if-match", '"e"'), ("x-forebay-durability", "origin")),
        ),
    ],
)
def test_the_origin_decides_conditions(headers: dict[str, str], conditions: HeaderPairs | None) -> None:
    assert conditions_of(CIMultiDict(headers)) == conditions


def test_other_conditions_are_refused() -> None:
    with pytest.raises(S3Error, match="If-Match or If-None-Match"):
        conditions_of(CIMultiDict({"If-Modified-Since": "Mon, 23 Nov 2026 00:00:00 GMT"}))
    assert is_for_origin(CIMultiDict({"x-forebay-durability": "ORIGIN"}))
