"""Sizes and durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.units import format_duration, format_size, parse_duration, parse_size, round_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (0, 0),
        (65536, 65536),
        ("65536", 65536),
        ("512B", 512),
        ("64KiB", 1 << 16),
        ("64 KiB", 1 << 16),
        (" 64KiB ", 1 << 16),
        ("4GiB", 4 << 30),
        ("500GB", 500 * 10**9),
        ("1kB", 1000),
        ("1KB", 1000),
        ("1.5GiB", 3 << 29),
        ("0.5KiB", 512),
        ("2TiB", 2 << 40),
        ("1PB", 10**15),
    ],
)
def test_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GiB",
        "-1",
        -1,
        "-1GiB",
        "4G",
        "4Gi",
        "4gib",
        "4 GiB x",
        "4  GiB",
        "1e3",
        "1_000",
        "0.3B",
        "1.5",
        "٤GiB",
        True,
        "1,5GiB",
        "0x10",
        "1.GiB",
        ".5GiB",
        "9" * 30,
    ],
)
def test_sizes_that_are_refused(text: str | int) -> None:
    with pytest.raises(ValueError, match="a size in whole bytes"):
        parse_size(text)


def test_an_unknown_unit_is_answered_with_the_units() -> None:
    with pytest.raises(ValueError, match="PiB, TiB, GiB, MiB, KiB"):
        parse_size("4G")


@given(st.integers(0, 10**18 - 1))
def test_a_formatted_size_is_exact(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0B"), (1, "1B"), (1 << 20, "1MiB"), (5 * 10**9, "5GB"), (1536, "1536B"), (3 << 29, "1536MiB")],
)
def test_a_formatted_size_is_short(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0),
        ("250ms", 0.25),
        ("60s", 60),
        ("90m", 5400),
        ("1h30m", 5400),
        ("1d", 86400),
        ("2w", 1209600),
        ("1m30s500ms", 90.5),
        ("0.5s", 0.5),
        ("1.5h", 5400),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "60", "s", "-1s", "1 m", "30m1h", "1h1h", "1y", "1S", "1sec", "1.5h30m", "1e3s", "٦s", "inf", "nan", "1h30"],
)
def test_durations_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a duration with its unit"):
        parse_duration(text)


@given(st.integers(0, 10**12))
def test_a_formatted_duration_is_exact_to_the_millisecond(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds / 1000)) == milliseconds / 1000


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (60, "1m"), (5400, "1h30m"), (0.25, "250ms"), (75, "1m15s")])
def test_a_formatted_duration_is_short(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_a_rounded_size_is_for_people() -> None:
    assert [round_size(size) for size in (0, 1023, 400_000, 11_285_765, 3 << 30)] == [
        "0 B",
        "1023 B",
        "390.6 KiB",
        "10.8 MiB",
        "3.0 GiB",
    ]
