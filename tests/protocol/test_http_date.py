"""HTTP dates: three forms, and nothing else."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.http_date import parse_http_date


@given(st.integers(0, 253_402_300_799))
def test_what_servers_write_is_read(seconds: int) -> None:
    assert parse_http_date(formatdate(seconds, usegmt=True)) == seconds


@pytest.mark.parametrize(
    "value", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
def test_the_three_forms_of_the_rfc(value: str) -> None:
    assert parse_http_date(value) == 784_111_777


def test_odd_but_valid() -> None:
    assert parse_http_date("Sun, 06 Nov 1994 08:49:37 -0000") == 784_111_777
    assert parse_http_date("Saturday, 31-Dec-16 23:59:60 GMT") == 1_483_228_799
    assert parse_http_date("Monday, 01-Jan-70 00:00:00 GMT") == 0


@pytest.mark.parametrize(
    "value",
    [
        "",
        "0",
        "now",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 PST",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:49:37 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 08:49:61 GMT",
        "Sun, 06 Xxx 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "1994-11-06T08:49:37Z",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",
    ],
)
def test_anything_else_is_no_date(value: str) -> None:
    assert parse_http_date(value) is None
