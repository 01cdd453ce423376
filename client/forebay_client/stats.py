"""`forebay stats`: the figures of a running Forebay on one screen of 80 columns. Pure: figures in, lines out."""

from collections.abc import Iterator

from forebay_client.admin import Answer
from forebay_client.quantities import counted, duration, number, share, size, times, visible
from forebay_client.rates import Rates
from forebay_client.surroundings import Line
from forebay_client.tables import Column, table

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


def stats_lines(stats: Answer, address: str, current: str = "") -> Iterator[Line]:
    """The screen. `current` is the line of `forebay top`: what happens right now."""
    yield Line(f"Forebay {visible(stats['version'])} at {address}, up {duration(stats['uptime'])}", "bold")
    if stats["workers_alive"] < stats["workers"]:
        yield Line(f"Only {stats['workers_alive']} of {counted(stats['workers'], 'worker')} run.", _BAD)
    if current:
        yield Line("")
        yield Line(current, "cyan")
    yield Line("")
    yield from _origin(stats["origin"])
    yield Line(_requests(stats["requests"]))
    yield Line(f"sent       {size(stats['bytes_sent'])} to clients, received {size(stats['bytes_received'])} from them")
    flights, budget = stats["flights"], stats["budget"]
    yield Line(
        f"flights    {number(flights['in_the_air'])} in the air, {counted(flights['waiting'], 'reader')} waiting; "
        f"{counted(stats['jobs']['running'], 'job')} running"
    )
    yield Line(
        f"buffers    {size(budget['used'])} of {size(budget['capacity'])}"
        + (f"; {counted(budget['throttled'], 'request')} told to slow down" if budget["throttled"] else "")
    )
    yield Line("")
    yield from table(
        TIERS,
        [
            (
                tier["name"],
                tier["state"],
                share(tier["used"] / tier["capacity"] if tier["capacity"] else None),
                size(tier["used"]),
                size(tier["capacity"]),
                number(tier["blocks"]),
                number(tier["heads"]),
            )
            for tier in stats["tiers"]
        ],
    )
    for tier in stats["tiers"]:
        if tier["state"] != "serving":
            yield Line(f"The {tier['name']} tier fails; reads go to the origin instead. The log says why.", _BAD)
    yield Line("")
    yield from table(READS, [_reads(reads, visible(reads["rule"])) for reads in _every(stats)])


def rates_line(rates: Rates) -> str:
    """What happens right now, on one line."""
    return (
        f"{number(rates.requests)} requests/s   {share(rates.hit_ratio)} hits   {size(rates.sent)}/s sent   "
        f"{size(rates.fetched)}/s fetched" + (f"   {rates.errors:.1f} errors/s" if rates.errors else "")
    )


def _origin(origin: Answer) -> Iterator[Line]:
    yield Line(f"origin     {visible(origin['endpoint'])}")
    troubled = origin["state"] == "unreachable" or origin["breaker"] != "closed"
    state = origin["state"] if origin["breaker"] == "closed" else f"{origin['state']}, breaker {origin['breaker']}"
    yield Line(f"           {state}", _BAD if troubled else _GOOD if origin["state"] == "reachable" else "")
    yield Line(
        f"           {counted(origin['requests'], 'request')}, {counted(origin['failures'], 'failure')}, "
        f"{number(origin['retries'])} retried, {size(origin['bytes_read'])} read"
    )


def _requests(requests: Answer) -> str:
    total = requests["total"]
    classes: dict[str, int] = {}
    for status, count in requests["by_status"].items():
        classes[f"{status[0]}xx"] = classes.get(f"{status[0]}xx", 0) + count
    shares = [f"{name} {share(count / total)}" for name, count in sorted(classes.items()) if count]
    return f"requests   {number(total)}" + (f": {', '.join(shares)}" if shares else "")


def _every(stats: Answer) -> list[Answer]:
    """All reads together first, then rule by rule; rules that nobody has read by yet are left out."""
    rules = [reads for reads in stats["reads"] if reads["requests"]]
    total = {
        **stats["hits"],
        "requests": sum(reads["requests"] for reads in rules),
        "rule": "(all reads)",
    }
    return [total, *rules]


def _reads(reads: Answer, rule: str) -> tuple[str, ...]:
    return (
        share(reads["hit_ratio"]),
        share(reads["memory_ratio"]),
        share(reads["ssd_ratio"]),
        share(reads["joined_ratio"]),
        times(reads["amplification"]),
        number(reads["requests"]),
        rule,
    )
