"""The README's tables of figures, taken from the benchmarks' pages: `python -m benchmarks.readme` writes them anew.

Nothing is measured here, and no figure is written by hand: each is found on a page by its section and its row, and
copied as it stands there. tests/docs/test_readme.py compares the two. A part of a page that has not been measured yet
has no row.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from benchmarks import ROOT

PAGE: Final = ROOT / "docs" / "benchmarks.md"
EPOCHS: Final = ROOT / "docs" / "benchmarks-epochs.md"
CHECKPOINTS: Final = ROOT / "docs" / "benchmarks-checkpoints.md"
CLIENTS: Final = ROOT / "docs" / "benchmarks-clients.md"
README: Final = ROOT / "README.md"
BEGIN: Final = "<!-- figures: python -m benchmarks.readme -->"
END: Final = "<!-- /figures -->"
TRAINING_BEGIN: Final = "<!-- training figures: python -m benchmarks.readme -->"
TRAINING_END: Final = "<!-- /training figures -->"

HEADINGS: Final = ("", "Forebay", "beside it", "so Forebay has")
CONNECTIONS: Final = "16"
WARM: Final = ("4 KiB", "128 KiB", "602,112 B", "8 MiB")
SSD: Final = "602,112 B"
FAR: Final = "20 ms, 80 MB/s"
READERS: Final = "4"
SHARED: Final = "Hit share of a set larger than the cache: memory and SSD"
PLANNED: Final = "The first epoch, with a plan"
RECORDED: Final = "The same seed again, on an empty cache"
SAVED: Final = "boto3 put_object, 256 MiB"

SHARED_MEMORY: Final = "forebay_client, shared memory"
BATCH_WAY: Final = "forebay_client over HTTP, `get_many`"

Row = dict[str, str]


def rendered(readme: str, page: str, epochs: str, checkpoints: str, clients: str) -> str:
    """The README with the figures of the pages. Raises LookupError where one of them is not as expected."""
    readme = _replaced(readme, BEGIN, END, _where(page), [HEADINGS, *_hits(page), *_misses(page)])
    rows = [
        (*HEADINGS, "measured", "others had"),
        *_shares(epochs),
        *_plans(epochs),
        *_recordings(epochs),
        *_listings(epochs),
        *_saves(checkpoints),
        *_small_writes(checkpoints),
        *_reads(clients),
        *_batches(clients),
    ]
    return _replaced(readme, TRAINING_BEGIN, TRAINING_END, "", rows)


def _replaced(readme: str, begin: str, end: str, text: str, rows: Sequence[tuple[str, ...]]) -> str:
    before, found_begin, rest = readme.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise LookupError(f"README.md has no {begin} ... {end}")
    rule, lead = ("---",) * len(rows[0]), f"{text}\n\n" if text else ""
    table = "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:]))
    return f"{before}{begin}\n{lead}{table}\n{end}{after}"


def _where(page: str) -> str:
    facts = {row["fact"]: row[""] for row in _rows(page, "Benchmarks")}
    machine = ", ".join((facts["CPU"], f"{facts['cores']} cores", facts["Python"], facts["nginx"]))
    load = facts["load average at the start"]
    return (
        f"Measured on {facts['date'].partition(' ')[0]}: {machine}.\n"
        f"The machine's load at the start was {load}; in brackets, the rounds' extremes."
    )


def _hits(page: str) -> Iterator[tuple[str, str, str, str]]:
    for title, said, sizes in (("Warm reads", "from memory", WARM), ("Hits on the SSD", "from the SSD", (SSD,))):
        for size in sizes:
            key = {"object": size, "conn.": CONNECTIONS}
            ours = _row(page, title, {**key, "server": "Forebay"})
            theirs = _row(page, title, {**key, "server": "nginx"})
            yield (
                f"hits {said}, {size}",
                f"{ours['requests/s']}/s",
                f"nginx: {theirs['requests/s']}/s",
                f"{ours['ratio to nginx']} of its rate",
            )


def _misses(page: str) -> Iterator[tuple[str, str, str, str]]:
    for size in ("4 KiB", "64 MiB"):
        cold = _row(page, "Cold reads", {"origin": FAR, "object": size})
        direct, ratio = f"no cache: {cold['total, direct']}", f"{cold['ratio of totals']} of the time"
        yield f"a miss, {size}, from an origin {FAR} away", cold["Forebay"], direct, ratio
    crowd = _row(page, "Stampede", {})
    sent = f"the origin sent {crowd['origin bytes by object bytes']} times the object"
    yield f"{crowd['readers']} readers at once of a cold {crowd['object']}", sent, "", ""
    full, empty = _rows(page, "Restart")
    took = "first answer after"
    yield f"process start to first hit, SSD with {full['SSD tier']}", full[took], f"empty: {empty[took]}", ""


def _shares(epochs: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(epochs, "shares"):
        half = _row(epochs, SHARED, {"x": "0.50", "workers": "1"})
        subject = "hit share from the third epoch on, tiers for half of the set, each epoch in a new order"
        yield subject, half["epoch"], f"LRU: {half['LRU']}", "of 0.50, the most that any cache can have", *measured


def _plans(epochs: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(epochs, "plans"):
        plan = _row(epochs, PLANNED, {"sample": SSD, "readers": READERS})
        subject = f"first epoch with a plan, {plan['samples']} x {SSD}, {READERS} boto3 readers, an origin {FAR} away"
        beside = f"no plan: {plan['cold']}"
        yield subject, plan["with a plan"], beside, f"{plan['plan by warm']} of a warm epoch", *measured


def _recordings(epochs: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(epochs, "recordings"):
        seed = _row(epochs, RECORDED, {"sample": SSD, "readers": READERS})
        subject = "the same job again, same seed, empty cache, nothing changed in it"
        beside = f"first run: {seed['first run']}"
        yield subject, seed["again"], beside, f"{seed['again by warm']} of a warm epoch", *measured


def _listings(epochs: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(epochs, "listings"):
        title = re.search(r"^## (Listing ([\d,]+) keys)$", epochs, re.MULTILINE)
        if title is None:
            raise LookupError("docs/benchmarks-epochs.md has no listings")
        first = _row(epochs, title[1], {"": "Forebay, the first, a bare client"})
        direct = _row(epochs, title[1], {"": "direct, boto3"})
        rate = f"{first['times as fast']} times the rate"
        beside = f"boto3, no cache: {direct['all keys']}"
        yield f"first listing of {title[2]} keys, 20 ms away", first["all keys"], beside, rate, *measured


def _saves(checkpoints: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(checkpoints, "saves"):
        saved = _row(checkpoints, "Checkpoints, acknowledged", {"checkpoint": SAVED, "origin": "far"})
        beside = f"no Forebay: {saved['direct']} MB/s; files with fsync: {saved['files']} MB/s"
        subject = f'a checkpoint under `write = "back"`, {SAVED}, an origin {FAR} away'
        rate = f"{saved['back by direct']} times the bucket's rate, {saved['back by files']} of the files'"
        yield subject, f"{saved['back']} MB/s", beside, rate, *measured


def _small_writes(checkpoints: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(checkpoints, "small"):
        title = "Small writes, acknowledged"
        ours = _row(checkpoints, title, {"10 KB": 'PUT, write = "back"'})
        sync = _row(checkpoints, title, {"10 KB": "one fdatasync"})
        subject = 'a PUT of 10 KB under `write = "back"`, median'
        times = f"{ours['p50 by that of one fdatasync']} times that"
        yield subject, ours["p50"], f"one fdatasync of the disk: {sync['p50']}", times, *measured


def _reads(clients: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(clients, "reads"):
        title = f"{SSD}, one process"
        ours, boto3 = (_row(clients, title, {"client": each}) for each in (SHARED_MEMORY, "boto3"))
        subject = f"CPU of a Python process for a read of {SSD} from the cache, client library, shared memory"
        boto3_ratio, best_ratio = ours["boto3's by it"], ours["the best other's by it"]
        times = f"1/{boto3_ratio} of boto3's, 1/{best_ratio} of the best other client's"
        yield subject, ours["CPU a read"], f"boto3: {boto3['CPU a read']}", times, *measured


def _batches(clients: str) -> Iterator[tuple[str, ...]]:
    if measured := _measured(clients, "batches"):
        title = re.search(r"^## (([\d,]+) objects of (.+), one worker)$", clients, re.MULTILINE)
        if title is None:
            raise LookupError("docs/benchmarks-clients.md has no batches")
        batch = _row(clients, title[1], {"way": BATCH_WAY})
        each = _row(clients, title[1], {"way": "boto3, a GET each"})
        subject = f"{title[2]} objects of {title[3]} by one worker in batches, over HTTP, an origin {FAR} away"
        times = f"{batch['times as fast, cold']} times the rate, warm {batch['times as fast, warm']}"
        beside = f"boto3, a GET each: {each['cold']}, warm {each['warm']}"
        yield subject, f"{batch['cold']}, warm {batch['warm']}", beside, times, *measured


def _measured(page: str, part: str) -> tuple[str, str] | None:
    """The day on which a part was measured, and what others had of the machine; None: it was not yet."""
    block = re.search(rf"<!-- part: {part} -->\n(.*?)<!-- /part -->", page, re.DOTALL)
    if block is None:
        raise LookupError(f"the page has no part {part}")
    if "not measured yet" in block[1]:
        return None
    found = re.search(r"^\*Measured (\S+) .* other programs had (\d+%) of the cores", block[1], re.MULTILINE)
    if found is None:
        raise LookupError(f"the page does not say when {part} were measured")
    return found[1], found[2]


def _row(page: str, title: str, key: Row) -> Row:
    for row in _rows(page, title):
        if key.items() <= row.items():
            return row
    raise LookupError(f"the page has no such row under {title}: {key}")


def _rows(page: str, title: str) -> list[Row]:
    """The rows of a section's table, by its headings; of two headings that are the same, the second."""
    section = re.search(rf"^##? {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    lines = [line for line in (section[1] if section else "").splitlines() if line.startswith("|")]
    if len(lines) < 3:
        raise LookupError(f"the page has no table under {title}")
    headings, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(headings, [cell.replace("**", "") for cell in row], strict=True)) for row in rows]


if __name__ == "__main__":
    pages = [page.read_text() for page in (PAGE, EPOCHS, CHECKPOINTS, CLIENTS)]
    README.write_text(rendered(README.read_text(), *pages))
