"""The table of docs/training-with-forebay.md: what each step brought where it was measured, by the page of its row."""

from typing import Final

from benchmarks import ROOT
from benchmarks.figures.measured_pages import (
    BATCH_OVER_HTTP,
    CHECKPOINTS,
    OVER_HTTP,
    PLANS,
    PUT_OBJECT,
    RECORDINGS,
    SHARED_MEMORY,
    SHARES,
    TENSOR,
    MeasuredPages,
    batched_objects,
    listed_keys,
    table_row,
    with_table,
)

GUIDE: Final = ROOT / "docs" / "training-with-forebay.md"
BEGIN: Final = "<!-- figures: python -m benchmarks.figures -->"
END: Final = "<!-- /figures -->"
HEADINGS: Final = ("step", "in the script", "figure", "measured by")
_FOUR: Final = {"sample": TENSOR, "readers": "4"}


def rendered(guide: str, pages: MeasuredPages) -> str:
    """The guide with the figures of the pages. Raises LookupError where one of them is not as expected."""
    epochs, clients = "benchmarks-epochs.md", "benchmarks-clients.md"
    steps = (
        ("the endpoint", "nothing: one variable", _endpoint(pages.training), "benchmarks-training.md"),
        ("the rule", "nothing", _rule(pages.epochs), epochs),
        ("the order", "nothing: `forebay run`; or one line", _order(pages.epochs), epochs),
        ("the same seed again", "nothing", _same_seed(pages.epochs), epochs),
        ("the listing", "nothing", _listing(pages.epochs), epochs),
        ("the client library", "the reads", _library(pages.clients), clients),
        ("shared memory", "nothing more", _shared_memory(pages.clients), clients),
        ("batches", "the data set", _batches(pages.clients), clients),
        ("packs", "nothing", _packs(pages.packs), "packs.md"),
        ("checkpoints", "nothing, or the writer", _checkpoints(pages.checkpoints), "benchmarks-checkpoints.md"),
    )
    rows = [
        (f"[{number}. {name}](#{number}-{name.replace(' ', '-')})", change, figure, f"[{page}]({page})")
        for number, (name, change, figure, page) in enumerate(steps, start=1)
    ]
    return with_table(guide, BEGIN, END, "", [HEADINGS, *rows])


def _endpoint(training: str) -> str:
    alone = table_row(training, "boto3", {"threads": "1"})["warm by direct"]
    epoch = table_row(training, "Epochs of 2,560 samples", {"batch": "32", "workers": "2"})
    return (
        f"boto3, one thread, an origin 20 ms away: **{alone}** times the objects a second once they are cached; a "
        f"DataLoader with two workers that waited for its data: **{epoch['direct by warm']}** times as fast, "
        f"**{epoch['warm by local files']}** of the time that local files take"
    )


def _rule(epochs: str) -> str:
    half = table_row(epochs, SHARES, {"x": "0.50", "workers": "1"})
    return f"a set of twice the tiers: **{half['epoch']}** of the bytes are hits, where LRU has {half['LRU']}"


def _order(epochs: str) -> str:
    plan = table_row(epochs, PLANS, _FOUR)
    ratio = plan["plan by warm"].partition(" ")[0]
    return f"the first epoch, four readers: {plan['with a plan']} in place of {plan['cold']}, **{ratio}** of a warm one"


def _same_seed(epochs: str) -> str:
    seed = table_row(epochs, RECORDINGS, _FOUR)
    return f"the same job on an empty cache: {seed['again']} in place of {seed['first run']}"


def _listing(epochs: str) -> str:
    title = listed_keys(epochs)
    first = table_row(epochs, title[1], {"": "Forebay, the first, a bare client"})
    return f"{title[2]} keys, the first time: **{first['times as fast']}** times the rate of boto3 without a cache"


def _library(clients: str) -> str:
    large, small = (
        table_row(clients, f"{size}, one process", {"client": OVER_HTTP})["boto3's by it"] for size in (TENSOR, "4 KiB")
    )
    return f"{TENSOR}, one process: boto3 takes **{large}** times the CPU for a read; 4 KiB: **{small}** times"


def _shared_memory(clients: str) -> str:
    large, small = (table_row(clients, f"{size}, one process", {"client": SHARED_MEMORY}) for size in (TENSOR, "4 KiB"))
    boto3, other = "boto3's by it", "the best other's by it"
    return (
        f"{TENSOR}, one process: boto3 takes **{large[boto3]}** times the CPU for a read, the best other client "
        f"**{large[other]}** times; 4 KiB: **{small[boto3]}** and **{small[other]}**"
    )


def _batches(clients: str) -> str:
    title = batched_objects(clients)
    batch = table_row(clients, title[1], {"way": BATCH_OVER_HTTP})
    return (
        f"objects of {title[3]}, one worker, an origin 20 ms away: **{batch['times as fast, cold']}** times one GET "
        f"each cold, **{batch['times as fast, warm']}** times warm"
    )


def _packs(packs: str) -> str:
    loose, members, reader = (
        table_row(packs, "Reading small files, measured", {"loop": f"cold: {loop}"})["a file"]
        for loop in (
            "loose objects, `Client.get`",
            "members by the rule, the same loop unchanged",
            "members by `PackReader.get_many`, its index included",
        )
    )
    return (
        f"20,000 B, one loop, an origin 20 ms away, cold: {members} an object in place of {loose}; "
        f"with `PackReader` {reader}"
    )


def _checkpoints(checkpoints: str) -> str:
    saved = table_row(checkpoints, CHECKPOINTS, {"checkpoint": PUT_OBJECT, "origin": "far"})
    return (
        f"`put_object` of 256 MiB, an origin 20 ms away: {saved['back']} MB/s in place of {saved['direct']}, and "
        f"**{saved['back by files']}** of the rate of local files with fsync"
    )
