"""`forebay stats`: the stats of a running Forebay on one screen of 80 columns. Pure: a response in, lines out."""

from collections.abc import Iterator, Sequence

from forebay_client.cli.admin_client import JsonObject
from forebay_client.cli.command_context import ScreenLine
from forebay_client.cli.human_format import (
    escape_unprintable,
    format_age,
    format_count,
    format_duration,
    format_factor,
    format_plural,
    format_share,
    format_size,
)
from forebay_client.cli.text_tables import Column, table
from forebay_client.cli.throughput import Rates

_GOOD, _BAD = "green", "bold red"

READS = (
    Column("HITS", right=True),
    Column("MEMORY", right=True),
    Column("SSD", right=True),
    Column("JOINED", right=True),
    Column("AMPLIFIED", right=True),
    Column("REQUESTS", right=True),
    Column("RULE"),
)
TIERS = (
    Column("TIER"),
    Column("STATE"),
    Column("FULL", right=True),
    Column("USED", right=True),
    Column("CAPACITY", right=True),
    Column("BLOCKS", right=True),
    Column("OBJECTS", right=True),
)
LISTINGS = (
    Column("LISTING"),
    Column("KEYS", right=True),
    Column("ON DISK", right=True),
    Column("AGE", right=True),
    Column("WRITTEN SINCE", right=True),
    Column("STATE"),
)


def stats_lines(stats: JsonObject, address: str, current: str = "") -> Iterator[ScreenLine]:
    """The lines of the screen. `current`: the line of rates of `forebay top`."""
    yield ScreenLine(
        f"Forebay {escape_unprintable(stats['version'])} at {address}, up {format_duration(stats['uptime'])}", "bold"
    )
    if stats["workers_alive"] < stats["workers"]:
        yield ScreenLine(f"Only {stats['workers_alive']} of {format_plural(stats['workers'], 'worker')} run.", _BAD)
    if current:
        yield ScreenLine("")
        yield ScreenLine(current, "cyan")
    yield ScreenLine("")
    yield from _traffic(stats)
    yield ScreenLine("")
    yield from _tiers(stats["tiers"])
    if stats["listings"]:
        yield ScreenLine("")
        yield from table(LISTINGS, [_listing(listing) for listing in stats["listings"]])
    yield ScreenLine("")
    yield from table(READS, [_reads(reads, escape_unprintable(reads["rule"])) for reads in _every(stats)])


def _traffic(stats: JsonObject) -> Iterator[ScreenLine]:
    for origin in stats.get("origins") or [stats["origin"]]:
        yield from _origin(origin)
    yield ScreenLine(_requests(stats["requests"]))
    sent, received = format_size(stats["bytes_sent"]), format_size(stats["bytes_received"])
    yield ScreenLine(f"sent       {sent} to clients, received {received} from them")
    flights, budget = stats["flights"], stats["budget"]
    waiting, jobs = format_plural(flights["waiting"], "reader"), format_plural(stats["jobs"]["running"], "job")
    yield ScreenLine(f"flights    {format_count(flights['in_the_air'])} in the air, {waiting} waiting; {jobs} running")
    yield ScreenLine(
        f"buffers    {format_size(budget['used'])} of {format_size(budget['capacity'])}"
        + (f"; {format_plural(budget['throttled'], 'request')} told to slow down" if budget["throttled"] else "")
    )
    if stats.get("journal") is not None:
        yield _journal(stats["journal"])


def _tiers(tiers: Sequence[JsonObject]) -> Iterator[ScreenLine]:
    yield from table(TIERS, [_tier(tier) for tier in tiers])
    for tier in tiers:
        if tier.get("pinned"):
            yield ScreenLine(f"The {tier['name']} tier keeps {format_size(tier['pinned'])} for pins.")
        if tier["state"] != "serving":
            reason = escape_unprintable(tier["reason"] or "the log says why")
            yield ScreenLine(f"The {tier['name']} tier fails; reads go to the origin instead: {reason}.", _BAD)


def _tier(tier: JsonObject) -> tuple[str, ...]:
    return (
        tier["name"],
        tier["state"],
        format_share(tier["used"] / tier["capacity"] if tier["capacity"] else None),
        format_size(tier["used"]),
        format_size(tier["capacity"]),
        format_count(tier["blocks"]),
        format_count(tier["heads"]),
    )


def _journal(journal: JsonObject) -> ScreenLine:
    late = journal["oldest"] > journal["max_age"]
    text = f"journal    {format_plural(journal['writes'], 'write')} of {format_size(journal['size'])} to go"
    text += f", the oldest accepted {format_age(journal['oldest'])} ago" if journal["writes"] else ""
    text += f"; {format_count(journal['stuck'])} stuck" if journal["stuck"] else ""
    text += f"; {format_plural(journal['conflicts'], 'conflict')}" if journal["conflicts"] else ""
    text += "; nearly full: writes go through" if journal["is_full"] else ""
    text += f"; failing: {journal['failure']}" if journal["failure"] else ""
    is_bad = journal["stuck"] or journal["conflicts"] or late or journal["is_full"] or journal["failure"]
    return ScreenLine(text, _BAD if is_bad else "")


def rates_line(rates: Rates) -> str:
    """Rates on one line."""
    return (
        f"{format_count(rates.requests)} requests/s   {format_share(rates.hit_ratio)} hits   "
        f"{format_size(rates.sent)}/s sent   {format_size(rates.fetched)}/s fetched"
        + (f"   {rates.errors:.1f} errors/s" if rates.errors else "")
    )


def _origin(origin: JsonObject) -> Iterator[ScreenLine]:
    named = f" ({escape_unprintable(origin['name'])})" if origin.get("name", "default") != "default" else ""
    yield ScreenLine(f"origin     {escape_unprintable(origin['endpoint'])}{named}")
    troubled = origin["state"] == "unreachable" or origin["breaker"] != "closed"
    state = origin["state"] if origin["breaker"] == "closed" else f"{origin['state']}, breaker {origin['breaker']}"
    if origin.get("cause") is not None:
        state += f" for {origin['unreachable_for']:.0f} s: {escape_unprintable(origin['cause'])}"
    if origin.get("credential_fault") is not None:
        troubled = True
        state += f"; {escape_unprintable(origin['credential_fault'])}"
    yield ScreenLine(f"           {state}", _BAD if troubled else _GOOD if origin["state"] == "reachable" else "")
    yield ScreenLine(
        f"           {format_plural(origin['requests'], 'request')}, {format_plural(origin['failures'], 'failure')}, "
        f"{format_count(origin['retries'])} retried"
        + (f", {format_size(origin['bytes_read'])} read" if origin["bytes_read"] is not None else "")
    )


def _requests(requests: JsonObject) -> str:
    total = requests["total"]
    classes: dict[str, int] = {}
    for status, count in requests["by_status"].items():
        name = "no response" if status == "0" else f"{status[0]}xx"
        classes[name] = classes.get(name, 0) + count
    shares = [f"{name} {format_share(count / total)}" for name, count in sorted(classes.items()) if count]
    return f"requests   {format_count(total)}" + (f": {', '.join(shares)}" if shares else "")


def _listing(listing: JsonObject) -> tuple[str, ...]:
    age = listing["age"]
    return (
        escape_unprintable(f"{listing['bucket']}/{listing['prefix']}"),
        format_count(listing["keys"]),
        format_size(listing["size"]),
        "-" if age is None else format_duration(age),
        format_count(listing["written"]),
        "being listed" if listing["is_walking"] else "complete",
    )


def _every(stats: JsonObject) -> list[JsonObject]:
    """A row for all reads, then one for each rule that had any."""
    rules = [reads for reads in stats["reads"] if reads["requests"]]
    total = {
        **stats["hits"],
        "requests": sum(reads["requests"] for reads in rules),
        "rule": "(all reads)",
    }
    return [total, *rules]


def _reads(reads: JsonObject, rule: str) -> tuple[str, ...]:
    return (
        format_share(reads["hit_ratio"]),
        format_share(reads["memory_ratio"]),
        format_share(reads["ssd_ratio"]),
        format_share(reads["joined_ratio"]),
        format_factor(reads["amplification"]),
        format_count(reads["requests"]),
        rule,
    )
