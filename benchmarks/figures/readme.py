"""The README's two tables of figures: of the cache, and of training."""

from collections.abc import Iterator
from typing import Final

from benchmarks import ROOT
from benchmarks.figures.measured_pages import (
    BATCH_OVER_HTTP,
    CHECKPOINTS,
    FAR,
    PLANS,
    PUT_OBJECT,
    RECORDINGS,
    SHARED_MEMORY,
    SHARES,
    TENSOR,
    MeasuredPages,
    batched_objects,
    listed_keys,
    measured,
    table_row,
    table_rows,
    with_table,
)

README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- figures: python -m benchmarks.figures -->"
END: Final = "<!-- /figures -->"
TRAINING_BEGIN: Final = "<!-- training figures: python -m benchmarks.figures -->"
TRAINING_END: Final = "<!-- /training figures -->"

HEADINGS: Final = ("", "Forebay", "beside it", "so Forebay has")
CONNECTIONS: Final = "16"
WARM: Final = ("4 KiB", "128 KiB", TENSOR, "8 MiB")
READERS: Final = "4"


def rendered(readme: str, pages: MeasuredPages) -> str:
    """The README with the figures of the pages. Raises LookupError where one of them is not as expected."""
    page = pages.benchmarks
    readme = with_table(readme, BEGIN, END, _where(page), [HEADINGS, *_hits(page), *_misses(page)])
    rows = [
        (*HEADINGS, "measured", "others had"),
        *_shares(pages.epochs),
        *_plans(pages.epochs),
        *_recordings(pages.epochs),
        *_listings(pages.epochs),
        *_saves(pages.checkpoints),
        *_small_writes(pages.checkpoints),
        *_reads(pages.clients),
        *_batches(pages.clients),
    ]
    return with_table(readme, TRAINING_BEGIN, TRAINING_END, "", rows)


def _where(page: str) -> str:
    facts = {row["fact"]: row[""] for row in table_rows(page, "Benchmarks")}
    machine = ", ".join((facts["CPU"], f"{facts['cores']} cores", facts["Python"], facts["nginx"]))
    load = facts["load average at the start"]
    return (
        f"Measured on {facts['date'].partition(' ')[0]}: {machine}.\n"
        f"The machine's load at the start was {load}; in brackets, the rounds' extremes."
    )


def _hits(page: str) -> Iterator[tuple[str, str, str, str]]:
    for title, said, sizes in (("Warm reads", "from memory", WARM), ("Hits on the SSD", "from the SSD", (TENSOR,))):
        for size in sizes:
            key = {"object": size, "conn.": CONNECTIONS}
            ours = table_row(page, title, {**key, "server": "Forebay"})
            theirs = table_row(page, title, {**key, "server": "nginx"})
            yield (
                f"hits {said}, {size}",
                f"{ours['requests/s']}/s",
                f"nginx: {theirs['requests/s']}/s",
                f"{ours['ratio to nginx']} of its rate",
            )


def _misses(page: str) -> Iterator[tuple[str, str, str, str]]:
    for size in ("4 KiB", "64 MiB"):
        cold = table_row(page, "Cold reads", {"origin": FAR, "object": size})
        direct, ratio = f"no cache: {cold['total, direct']}", f"{cold['ratio of totals']} of the time"
        yield f"a miss, {size}, from an origin {FAR} away", cold["Forebay"], direct, ratio
    crowd = table_row(page, "Stampede", {})
    sent = f"the origin sent {crowd['origin bytes by object bytes']} times the object"
    yield f"{crowd['readers']} readers at once of a cold {crowd['object']}", sent, "", ""
    full, empty = table_rows(page, "Restart")
    took = "first answer after"
    yield f"process start to first hit, SSD with {full['SSD tier']}", full[took], f"empty: {empty[took]}", ""


def _shares(epochs: str) -> Iterator[tuple[str, ...]]:
    if when := measured(epochs, "shares"):
        half = table_row(epochs, SHARES, {"x": "0.50", "workers": "1"})
        subject = "hit share from the third epoch on, tiers for half of the set, each epoch in a new order"
        yield subject, half["epoch"], f"LRU: {half['LRU']}", "of 0.50, the most that any cache can have", *when


def _plans(epochs: str) -> Iterator[tuple[str, ...]]:
    if when := measured(epochs, "plans"):
        plan = table_row(epochs, PLANS, {"sample": TENSOR, "readers": READERS})
        subject = (
            f"first epoch with a plan, {plan['samples']} x {TENSOR}, {READERS} boto3 readers, an origin {FAR} away"
        )
        beside = f"no plan: {plan['cold']}"
        yield subject, plan["with a plan"], beside, f"{plan['plan by warm']} of a warm epoch", *when


def _recordings(epochs: str) -> Iterator[tuple[str, ...]]:
    if when := measured(epochs, "recordings"):
        seed = table_row(epochs, RECORDINGS, {"sample": TENSOR, "readers": READERS})
        subject = "the same job again, same seed, empty cache, nothing changed in it"
        beside = f"first run: {seed['first run']}"
        yield subject, seed["again"], beside, f"{seed['again by warm']} of a warm epoch", *when


def _listings(epochs: str) -> Iterator[tuple[str, ...]]:
    if when := measured(epochs, "listings"):
        title = listed_keys(epochs)
        first = table_row(epochs, title[1], {"": "Forebay, the first, a bare client"})
        direct = table_row(epochs, title[1], {"": "direct, boto3"})
        rate = f"{first['times as fast']} times the rate"
        beside = f"boto3, no cache: {direct['all keys']}"
        yield f"first listing of {title[2]} keys, 20 ms away", first["all keys"], beside, rate, *when


def _saves(checkpoints: str) -> Iterator[tuple[str, ...]]:
    if when := measured(checkpoints, "saves"):
        saved = table_row(checkpoints, CHECKPOINTS, {"checkpoint": PUT_OBJECT, "origin": "far"})
        beside = f"no Forebay: {saved['direct']} MB/s; files with fsync: {saved['files']} MB/s"
        subject = f'a checkpoint under `write = "back"`, {PUT_OBJECT}, an origin {FAR} away'
        rate = f"{saved['back by direct']} times the bucket's rate, {saved['back by files']} of the files'"
        yield subject, f"{saved['back']} MB/s", beside, rate, *when


def _small_writes(checkpoints: str) -> Iterator[tuple[str, ...]]:
    if when := measured(checkpoints, "small"):
        title = "Small writes, acknowledged"
        ours = table_row(checkpoints, title, {"10 KB": 'PUT, write = "back"'})
        sync = table_row(checkpoints, title, {"10 KB": "one fdatasync"})
        subject = 'a PUT of 10 KB under `write = "back"`, median'
        times = f"{ours['p50 by that of one fdatasync']} times that"
        yield subject, ours["p50"], f"one fdatasync of the disk: {sync['p50']}", times, *when


def _reads(clients: str) -> Iterator[tuple[str, ...]]:
    if when := measured(clients, "reads"):
        title = f"{TENSOR}, one process"
        ours, boto3 = (table_row(clients, title, {"client": each}) for each in (SHARED_MEMORY, "boto3"))
        subject = f"CPU of a Python process for a read of {TENSOR} from the cache, client library, shared memory"
        boto3_ratio, best_ratio = ours["boto3's by it"], ours["the best other's by it"]
        times = f"1/{boto3_ratio} of boto3's, 1/{best_ratio} of the best other client's"
        yield subject, ours["CPU a read"], f"boto3: {boto3['CPU a read']}", times, *when


def _batches(clients: str) -> Iterator[tuple[str, ...]]:
    if when := measured(clients, "batches"):
        title = batched_objects(clients)
        batch = table_row(clients, title[1], {"way": BATCH_OVER_HTTP})
        each = table_row(clients, title[1], {"way": "boto3, a GET each"})
        subject = f"{title[2]} objects of {title[3]} by one worker in batches, over HTTP, an origin {FAR} away"
        times = f"{batch['times as fast, cold']} times the rate, warm {batch['times as fast, warm']}"
        beside = f"boto3, a GET each: {each['cold']}, warm {each['warm']}"
        yield subject, f"{batch['cold']}, warm {batch['warm']}", beside, times, *when
