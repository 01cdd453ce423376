"""Origin routes: the first pattern that matches, and the origin of all other buckets."""

import pytest

from forebay.policy.origin_routes import SINGLE_ORIGIN, OriginRoutes

LISTED = [("a", ["data", "logs-*"]), ("b", ["logs-2026", "img-??"])]


@pytest.mark.parametrize(
    ("bucket", "origin"),
    [
        ("data", "a"),
        ("logs-", "a"),
        ("logs-2026", "a"),  # the first wins
        ("img-01", "b"),
        ("img-001", None),
        ("data2", None),
        ("xdata", None),
        ("logs", None),
    ],
)
def test_the_first_pattern_that_matches(bucket: str, origin: str | None) -> None:
    for _ in range(2):  # matched, and memoized
        assert ROUTES.name_of(bucket) == origin
        assert ROUTES_WITH_DEFAULT.name_of(bucket) == (origin or "default")


ROUTES = OriginRoutes(LISTED, None)
ROUTES_WITH_DEFAULT = OriginRoutes(LISTED, "default")


def test_positions_are_in_the_order_of_the_origins() -> None:
    assert ROUTES_WITH_DEFAULT.names == ("a", "b", "default")
    assert [ROUTES_WITH_DEFAULT.position_of(bucket) for bucket in ("data", "img-01", "other")] == [0, 1, 2]


def test_one_origin_has_all_buckets() -> None:
    assert (SINGLE_ORIGIN.position_of("any"), SINGLE_ORIGIN.name_of("any")) == (0, "default")


def test_many_buckets_are_not_all_memoized() -> None:
    routes = OriginRoutes([("a", ["*"])], None)
    assert {routes.position_of(f"bucket-{number}") for number in range(10_000)} == {0}
    assert len(routes._known) <= 4096  # noqa: SLF001 # the bound itself
