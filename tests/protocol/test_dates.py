"""Dates: the three forms of HTTP dates, the timestamps of Signature Version 4, and no other text."""

from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.protocol.dates import (
    epoch_seconds,
    format_document_time,
    format_iso8601,
    format_timestamp,
    parse_http_date,
    timestamp_of_date_header,
)


@given(st.integers(0, 253_402_300_799))
def test_http_dates_of_servers_are_parsed(seconds: int) -> None:
    assert parse_http_date(formatdate(seconds, usegmt=True)) == seconds


@pytest.mark.parametrize(
    "value", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
def test_all_three_http_date_forms_are_parsed(value: str) -> None:
    assert parse_http_date(value) == 784_111_777


def test_zero_offset_and_leap_second_are_valid() -> None:
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
def test_other_text_is_no_http_date(value: str) -> None:
    assert parse_http_date(value) is None


def test_timestamp_converts_to_seconds_and_back() -> None:
    assert epoch_seconds("20130524T000000Z") == 1369353600
    assert format_timestamp(1369353600.9) == "20130524T000000Z"
    assert format_iso8601(1369353600.9) == "2013-05-24T00:00:00Z"
    assert format_document_time(1369353600.9) == "2013-05-24T00:00:00.000Z"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "20130524T000000",
        "20130524 000000Z",
        "20130524T000000z",
        "20130524T0000000Z",
        "20130230T000000Z",
        "20130524T240000Z",
        "2013052_T000000Z",
        "+0130524T000000Z",
        "201305 4T000000Z",
        "\uff12\uff10\uff11\uff130524T000000Z",  # full-width digits
    ],
)
def test_malformed_timestamp_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a timestamp|month|day|hour"):
        epoch_seconds(text)


@pytest.mark.parametrize(
    "text", ["Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:00 -0000", "20130524T000000Z"]
)
def test_date_header_may_hold_http_date_or_timestamp(text: str) -> None:
    assert timestamp_of_date_header(text) == "20130524T000000Z"


@pytest.mark.parametrize(
    "text", ["", "yesterday", "Fri, 99 May 2013 00:00:00 GMT", ",", "24", "Fri, 24 May 99999 0:0:0 GMT"]
)
def test_malformed_date_header_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not an HTTP date"):
        timestamp_of_date_header(text)


@pytest.mark.parametrize("year", [1970, 2013, 9999])
def test_timestamp_has_a_four_digit_year(year: int) -> None:
    stamp = timestamp_of_date_header(f"Fri, 15 Jan {year} 08:00:00 GMT")
    assert stamp == f"{year}0115T080000Z"
    assert format_timestamp(epoch_seconds(stamp)) == stamp


@pytest.mark.parametrize("stamp", ["19500707T215304Z", "19691231T235959Z"])
def test_dates_before_the_epoch_are_rejected(stamp: str) -> None:
    with pytest.raises(ValueError, match="since the epoch"):
        epoch_seconds(stamp)
    for date in (stamp, f"Tue, 07 Jul {stamp[:4]} 21:53:04 GMT"):
        with pytest.raises(ValueError, match="not an HTTP date"):
            timestamp_of_date_header(date)
