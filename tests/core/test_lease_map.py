"""Lease maps: what is known for a time."""

from forebay.core.lease_map import LeaseMap


def test_a_value_is_known_for_its_lease() -> None:
    now = 0.0
    leases = LeaseMap[str, bool](10, 5.0, lambda: now)
    leases.set("a", True)
    leases.set("b", False)
    assert (leases.get("a"), leases.get("b"), leases.get("c")) == (True, False, None)
    assert "b" in leases
    now = 4.0
    leases.set("a", False)
    now = 5.0
    assert (leases.get("a"), leases.get("b")) == (False, None)
    assert "b" not in leases
    now = 9.0
    assert "a" not in leases


def test_what_was_set_first_gives_way() -> None:
    leases = LeaseMap[str, bool](2, 5.0, lambda: 0.0)
    for key in ("a", "b", "a", "c"):
        leases.set(key, True)
    assert [key for key in "abc" if key in leases] == ["a", "c"]


def test_a_value_is_forgotten() -> None:
    leases = LeaseMap[str, bool](10, 5.0, lambda: 0.0)
    for key in "abc":
        leases.set(key, True)
    leases.discard("a")
    leases.discard("a")
    assert [key for key in "abc" if key in leases] == ["b", "c"]
    leases.clear()
    assert "b" not in leases
