from typing import Any

from forebay_client.cli.throughput import rates_between


def stats(uptime: float, *, total: int, errors: int, hit: int, origin: int, rule: str = "r") -> dict[str, Any]:
    return {
        "uptime": uptime,
        "requests": {"total": total, "by_status": {"200": total - errors, "503": errors}},
        "bytes_sent": 100 * total,
        "origin": {"bytes_read": origin},
        "reads": [{"rule": rule, "memory": hit, "ssd": 0, "joined": 0, "origin": origin}],
    }


def job(done: int, *, listing_ended: bool = True) -> dict[str, Any]:
    return {"bytes_done": done, "bytes_listed": 1000, "listing_ended": listing_ended}


def test_rates_are_differences_of_counters() -> None:
    rates = rates_between(
        stats(10, total=100, errors=0, hit=0, origin=1000), stats(12, total=300, errors=4, hit=300, origin=1100), 2.0
    )
    assert rates is not None
    assert rates == (100.0, 2.0, 10_000.0, 50.0, 0.75)


def test_new_rules_count_from_zero() -> None:
    rates = rates_between(
        stats(10, total=1, errors=0, hit=5, origin=5, rule="old"),
        stats(11, total=2, errors=0, hit=30, origin=10, rule="new"),
        1.0,
    )
    assert rates is not None
    assert rates.hit_ratio == 0.75


def test_without_reads_there_is_no_ratio() -> None:
    rates = rates_between(
        stats(10, total=1, errors=0, hit=5, origin=5), stats(11, total=1, errors=0, hit=5, origin=5), 1.0
    )
    assert rates is not None
    assert rates.hit_ratio is None


def test_no_rates_across_a_restart() -> None:
    assert (
        rates_between(
            stats(10, total=100, errors=0, hit=1, origin=1), stats(1, total=3, errors=0, hit=0, origin=0), 1.0
        )
        is None
    )
    assert (
        rates_between(
            stats(10, total=100, errors=0, hit=1, origin=1), stats(10, total=100, errors=0, hit=1, origin=1), 0.0
        )
        is None
    )
