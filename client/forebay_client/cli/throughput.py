"""Throughput: rates between two readings of counters. Pure: times are arguments."""

from typing import NamedTuple

from forebay_client.cli.admin_client import JsonObject


class Rates(NamedTuple):
    """Events and bytes per second between two responses of /v1/stats."""

    requests: float
    errors: float
    """Responses with a status of 500 or above."""
    sent: float
    """Bytes to clients."""
    fetched: float
    """Bytes from the origin."""
    hit_ratio: float | None
    """The share of the bytes read in between that were hits; None: no bytes were read."""


def rates_between(before: JsonObject, after: JsonObject, seconds: float) -> Rates | None:
    """The rates; None if the two can't be compared: no time has passed, or Forebay was restarted in between."""
    if seconds <= 0 or after["uptime"] < before["uptime"]:
        return None
    wanted = hit = 0
    earlier = {reads["rule"]: reads for reads in before["reads"]}
    for reads in after["reads"]:
        then = earlier.get(reads["rule"], {})
        found = sum(reads[source] - then.get(source, 0) for source in ("memory", "ssd", "joined"))
        hit += found
        wanted += found + reads["origin"] - then.get("origin", 0)
    return Rates(
        requests=(after["requests"]["total"] - before["requests"]["total"]) / seconds,
        errors=(_errors(after) - _errors(before)) / seconds,
        sent=(after["bytes_sent"] - before["bytes_sent"]) / seconds,
        fetched=(after["origin"]["bytes_read"] - before["origin"]["bytes_read"]) / seconds,
        hit_ratio=hit / wanted if wanted > 0 else None,
    )


def _errors(stats: JsonObject) -> int:
    return sum(count for status, count in stats["requests"]["by_status"].items() if int(status) >= 500)
