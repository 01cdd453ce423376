"""Orders of warm-up jobs: the text of their bounds."""

import pytest

from forebay.server.admin.schema.warm_order import (
    check_newer_than,
    check_rate,
    check_until,
    parse_newer_than,
    parse_object_url,
    parse_until,
)


def test_locations() -> None:
    assert parse_object_url("s3://b/a b/%2F") == ("b", "a b/%2F")
    assert parse_object_url("oss://b") == ("b", "")
    assert parse_object_url("b/k") is None
    for wrong in ("s3://", "s3:///k", "s3://b/" + "k" * 1025):
        with pytest.raises(ValueError):
            parse_object_url(wrong)


def test_bounds() -> None:
    assert check_rate("200MiB", "rate") == check_rate("200MiB/s", "rate") == 200 << 20
    assert (parse_until("80%"), parse_until("1GiB")) == ((0.8, None), (None, 1 << 30))
    for check, values in (
        (check_rate, ("0", "-1", "fast", 5, True)),
        (check_until, ("0%", "101%", "nan%", "x%", "%", "0B", 0.8)),
        (check_newer_than, ("yesterday", "7", "2026-13-01", 7)),
    ):
        assert check(None, "name") is None
        for wrong in values:
            with pytest.raises(ValueError):
                check(wrong, "name")


def test_a_moment_is_a_duration_ago_or_a_date() -> None:
    assert parse_newer_than("7d", 1_000_000.0) == 1_000_000.0 - 7 * 86_400
    assert parse_newer_than("1h30m", 10_000.0) == 10_000.0 - 5400
    assert parse_newer_than("2026-01-01", 0.0) == parse_newer_than("2026-01-01T01:00:00+01:00", 0.0) == 1_767_225_600.0
    assert parse_newer_than("2026-01-01T00:00:00Z", 0.0) == 1_767_225_600.0
