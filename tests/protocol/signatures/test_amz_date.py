import pytest

from forebay.protocol.signatures.amz_date import (
    epoch_seconds,
    format_iso8601,
    format_timestamp,
    timestamp_of_date_header,
)


def test_a_timestamp_is_a_moment() -> None:
    assert epoch_seconds("20130524T000000Z") == 1369353600
    assert format_timestamp(1369353600.9) == "20130524T000000Z"
    assert format_iso8601(1369353600.9) == "2013-05-24T00:00:00Z"


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
def test_nothing_else_is_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a timestamp|month|day|hour"):
        epoch_seconds(text)


@pytest.mark.parametrize(
    "text", ["Fri, 24 May 2013 00:00:00 GMT", "Fri, 24 May 2013 00:00:00 -0000", "20130524T000000Z"]
)
def test_a_date_header_is_taken_in_both_forms(text: str) -> None:
    assert timestamp_of_date_header(text) == "20130524T000000Z"


@pytest.mark.parametrize(
    "text", ["", "yesterday", "Fri, 99 May 2013 00:00:00 GMT", ",", "24", "Fri, 24 May 99999 0:0:0 GMT"]
)
def test_a_date_header_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an HTTP date"):
        timestamp_of_date_header(text)


@pytest.mark.parametrize("year", [1970, 2013, 9999])
def test_the_year_has_four_digits(year: int) -> None:
    stamp = timestamp_of_date_header(f"Fri, 15 Jan {year} 08:00:00 GMT")
    assert stamp == f"{year}0115T080000Z"
    assert format_timestamp(epoch_seconds(stamp)) == stamp


@pytest.mark.parametrize("stamp", ["19500707T215304Z", "19691231T235959Z"])
def test_a_moment_before_the_epoch_is_no_date_of_a_request(stamp: str) -> None:
    with pytest.raises(ValueError, match="since the epoch"):
        epoch_seconds(stamp)
    for date in (stamp, f"Tue, 07 Jul {stamp[:4]} 21:53:04 GMT"):
        with pytest.raises(ValueError, match="not an HTTP date"):
            timestamp_of_date_header(date)
