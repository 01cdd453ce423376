import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay_client.cli import human_format


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10_188, "9.9 KiB"),
        (10_200, "10 KiB"),
        (1024 * 1024 - 1, "1.0 MiB"),
        (400 * 1024**2, "400 MiB"),
        (5 * 1024**7, "5120 EiB"),
    ],
)
def test_size(count: int, text: str) -> None:
    assert human_format.format_size(count) == text


@given(st.integers(min_value=0, max_value=1000 * 1024**6))
def test_a_size_fits_its_column(count: int) -> None:
    assert len(human_format.format_size(count)) <= human_format.SIZE_WIDTH


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(None, "-"), (0.0, "0.0%"), (1e-9, "<0.1%"), (0.9375, "93.8%"), (1 - 1e-9, "99.9%"), (1.0, "100.0%")],
)
def test_share(ratio: float | None, text: str) -> None:
    assert human_format.format_share(ratio) == text


@given(st.floats(min_value=0, max_value=1))
def test_a_share_fits_its_column(ratio: float) -> None:
    assert len(human_format.format_share(ratio)) <= human_format.SHARE_WIDTH


@pytest.mark.parametrize(
    ("seconds", "long", "short"),
    [
        (-3, "0 s", "0 s"),
        (0.4, "0 s", "0 s"),
        (59.4, "59 s", "59 s"),
        (60, "1 min", "1 min"),
        (200, "3 min 20 s", "3 min"),
        (15_000, "4 h 10 min", "4 h"),
        (273_720, "3 d 4 h", "3 d"),
    ],
)
def test_times(seconds: float, long: str, short: str) -> None:
    assert human_format.format_duration(seconds) == long
    assert human_format.format_age(seconds) == short


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "0.1 s"), (0.34, "0.3 s"), (0.96, "1 s"), (90.0, "1 min 30 s")])
def test_elapsed(seconds: float, text: str) -> None:
    assert human_format.format_elapsed(seconds) == text


def test_counts() -> None:
    assert human_format.format_count(1_234_567) == "1,234,567"
    assert [human_format.format_plural(count, "object") for count in (0, 1, 2000)] == [
        "0 objects",
        "1 object",
        "2,000 objects",
    ]
    assert human_format.format_factor(1.031) == "1.03x"
    assert human_format.format_factor(None) == "-"
    assert human_format.format_rate(None) == "-"
    assert human_format.format_rate(2048) == "2.0 KiB/s"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain ü 数", "plain ü 数"), ("a\nb", "a\\nb"), ("\x1b[31m", "\\x1b[31m"), ("\u202eab", "\\u202eab")],
)
def test_unprintable_text_is_escaped(text: str, shown: str) -> None:
    assert human_format.escape_unprintable(text) == shown


@given(st.text())
def test_output_is_always_printable(text: str) -> None:
    assert human_format.escape_unprintable(text).isprintable()
