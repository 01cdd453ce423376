"""Whether the benchmarks still run: each of them on next to nothing.

What they measure here means nothing, and no time is asserted; that what they time is right they check themselves.
"""

import shutil
import sys
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest
from benchmarks.bench_context import BenchContext
from benchmarks.cache import cold, neighbours, noisy_clients, ranges, restart, ssd, stampede, warm, workers, writes
from benchmarks.catalogue import PARTED
from benchmarks.checkpoints import checkpoint_saves, drain_reads, small_writes
from benchmarks.clients import client_batches, client_reads
from benchmarks.epochs import (
    epoch_beside,
    epoch_plans,
    epoch_recordings,
    epoch_shares,
    listings,
    node_workers,
    recorded_hits,
)
from benchmarks.errors import UnexpectedResponse
from benchmarks.load.load import percentile
from benchmarks.load.signed_requests import DISTINCT, signed
from benchmarks.load.wrk import parsed
from benchmarks.pages.curves import Curve, write_plot
from benchmarks.pages.page import page
from benchmarks.pages.part_pages import others_share, part_text, parted_page
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.run_sizes import KIB, RunSizes
from benchmarks.scale import scale
from benchmarks.servers.nginx import find_nginx
from benchmarks.servers.varnish import find_varnish

TINY = RunSizes(
    rounds=1,
    round_seconds=0.3,
    connections=(2,),
    warm_objects=2,
    warm_sizes=(4 * KIB, 100_000),
    cold_reads=((4 * KIB, 2), (2 << 20, 1)),
    cold_large=(3 << 20, 1),
    writes=((3 << 20, 1),),
    readers=5,
    stampede_size=3 << 20,
    cached_blocks=50,
    restarts=1,
    scale_blocks=1_500,
    scale_misses=(20, 3),
    scale_lookups=1_000,
    training=(8, 0.0),
    training_batches=(4,),
    training_workers=(1,),
    boto_threads=(2,),
    boto_objects=4,
    ssd_objects=2,
    ranged_size=3 << 20,
    neighbour_requests=5,
    epoch_set=(40, 100_000),
    epoch_count=3,
    epoch_shares=(0.5,),
    epoch_workers=(1,),
    plan_samples=(20, 0),
    plan_long=0,
    plan_readers=(2,),
    plan_compute=0.0,
    plan_steps=(0.0,),
    plan_rounds=1,
    half_rounds=1,
    prefetched=(30, 30),
    reads_beside=(1, 1),
    listing=(1_100, 1.0),
    recorded_hits=((100, 2, 1),),
    relayed=((300_000, 21),),
    node_workers=(2,),
    checkpoints=(("ranks", 2 << 20, 2),),
    checkpoint_rounds=1,
    small_writes=5,
    backlog=(2, 2 << 20),
    plots=None,
)


@pytest.fixture
def bench(tmp_path: Path) -> BenchContext:
    """Without wrk, whose shortest round is a second."""
    return BenchContext(TINY, tmp_path, find_nginx(), find_varnish(), None)


def figures(section: Section) -> list[tuple[str, ...]]:
    assert section.table is not None
    assert all(len(row) == len(section.table.headings) for row in section.table.rows)
    return list(section.table.rows)


def servers(bench: BenchContext, *, memory: bool = False) -> list[str]:
    peers = {"nginx": bench.nginx is not None, "Varnish": memory and bench.varnish is not None}
    return ["Forebay", *(name for name, there in peers.items() if there)]


@pytest.mark.long
def test_warm(bench: BenchContext) -> None:
    hits, paced, forms, log = warm.run(bench)
    for section in (hits, paced):
        assert [row[2] for row in figures(section)] == servers(bench, memory=True) * len(TINY.warm_sizes)
    assert [row[0] for row in figures(forms)] == [
        "in the header",
        "in the header, with If-Match",
        "presigned URL",
        "OSS version 4, in the header",
        "OSS version 1, in the header",
        "OSS version 4, URL",
    ]
    assert [row[0] for row in figures(log)] == ["to a file", "off"]


@pytest.mark.long
def test_a_peer_that_is_not_installed_is_left_out_and_that_is_said(tmp_path: Path) -> None:
    hits, *_ = warm.run(BenchContext(TINY, tmp_path, None, None, None))
    assert {row[2] for row in figures(hits)} == {"Forebay"}
    assert "nginx is not installed" in hits.remarks
    assert "Varnish is not installed" in hits.remarks
    assert "wrk is not installed" in hits.remarks


@pytest.mark.long
def test_ssd(bench: BenchContext) -> None:
    hits, cold = ssd.run(bench)
    assert [row[2] for row in figures(hits)] == servers(bench)
    assert [row[0] for row in figures(cold)] == ["Forebay", "Forebay", "a bare server", "a bare server"]


@pytest.mark.long
def test_ranges(bench: BenchContext) -> None:
    [section] = ranges.run(bench)
    assert [row[2] for row in figures(section)] == servers(bench) * 2


@pytest.mark.long
def test_scale(bench: BenchContext) -> None:
    filling, million = scale.run(bench)
    assert [row[1] for row in figures(filling)] == ["straight", "misses", "plain file"] * 2
    assert [row[0] for row in figures(million)] == ["1,000", "1,500", "1,500"]


def test_writes(bench: BenchContext) -> None:
    [section] = writes.run(bench)
    assert [row[0:3:2] for row in figures(section)] == [
        (origin, form) for origin in ("loopback", "20 ms, 80 MB/s") for form in ("SHA-256", "unsigned")
    ]


@pytest.mark.long
def test_cold(bench: BenchContext) -> None:
    reads, large = cold.run(bench)
    origins = ("loopback", "20 ms", "20 ms, 80 MB/s")
    assert [row[:2] for row in figures(reads)] == [(origin, size) for origin in origins for size in ("4 KiB", "2 MiB")]
    assert [row[0].partition(",")[0] for row in figures(large)] == ["direct", "direct", "through Forebay"]


@pytest.mark.long
def test_stampede(bench: BenchContext) -> None:
    [section] = stampede.run(bench)
    assert [(row[0], row[3]) for row in figures(section)] == [("1", "**1.000**"), ("2", "**1.000**")]


@pytest.mark.long
def test_workers(bench: BenchContext) -> None:
    [section] = workers.run(bench)
    assert [row[0] for row in figures(section)] == ["4 KiB", "100,000 B"]


def test_restart(bench: BenchContext) -> None:
    [section] = restart.run(bench)
    assert [row[4] for row in figures(section)] == ["hit-ssd", "miss"]


@pytest.mark.long
def test_neighbours(bench: BenchContext) -> None:
    [beside] = neighbours.run(bench)
    assert [row[0] for row in figures(beside)] == ["nobody", *noisy_clients.KINDS]


@pytest.mark.long
def test_shares_of_epochs(bench: BenchContext) -> None:
    both, ssd_alone, *nginx = epoch_shares.run(bench)
    for section in (both, ssd_alone):
        assert [row[:3] for row in figures(section)] == [("0.50", "1", "0.153")]
    assert [section.title.rpartition(" ")[2] for section in nginx] == ["nginx"] * (bench.nginx is not None)


@pytest.mark.long
def test_plans_of_epochs(bench: BenchContext) -> None:
    [first, shares], [half] = epoch_plans.run(bench), epoch_plans.run_half(bench)
    assert [row[:3] for row in figures(first)] == [row[:3] for row in figures(shares)] == [("602,112 B", "20", "2")]
    assert [row[2:4] for row in figures(half)] == [("2", "0 ms")] * 2


@pytest.mark.long
def test_reads_beside_a_prefetch(bench: BenchContext) -> None:
    [section] = epoch_beside.run(bench)
    assert [row[1] for row in figures(section)] == ["hit", "miss", "direct", "bare"] * 2


@pytest.mark.long
def test_recordings_of_epochs(bench: BenchContext) -> None:
    [section] = epoch_recordings.run(bench)
    assert [row[:3] for row in figures(section)] == [("602,112 B", "20", "2")]


@pytest.mark.long
def test_listings(bench: BenchContext) -> None:
    [section] = listings.run(bench)
    assert [row[0].partition(",")[0] for row in figures(section)] == ["direct"] * 2 + ["Forebay"] * 4
    assert ". 110 objects whose freshness had ended" in section.remarks


@pytest.mark.long
def test_the_first_listing(bench: BenchContext) -> None:
    [section] = listings.run_first(bench)
    assert len(figures(section)) == listings.FIRST_TURNS


@pytest.mark.long
def test_recorded_hits(bench: BenchContext) -> None:
    [section] = recorded_hits.run(bench)
    assert [row[0] for row in figures(section)] == ["shuffled", "same"]


@pytest.mark.long
def test_node_workers(bench: BenchContext) -> None:
    hits, epochs = node_workers.run(bench)
    assert [row[0] for row in figures(hits)] == ["300,000 B"]
    assert [row[0] for row in figures(epochs)] == ["2"]


@pytest.mark.long
def test_checkpoints(bench: BenchContext) -> None:
    [section] = checkpoint_saves.run(bench)
    titles, rows = ["2 ranks, upload_file, 2 MiB in all"], list(figures(section))
    assert [row[:2] for row in rows] == [(way, far) for way in titles for far in ("loopback", "far")]
    assert all(float(cell.removesuffix(" ns")) > 0 for row in rows for cell in row[-4:])


def test_small_writes(bench: BenchContext) -> None:
    [spaced, in_a_row] = small_writes.run(bench)
    assert [row[0].partition(",")[0] for row in figures(spaced)] == ["one fdatasync", *["PUT"] * 5]
    assert [row[0] for row in figures(in_a_row)] == [row[0] for row in figures(spaced)][:4]


def test_reads_beside_a_drain(bench: BenchContext) -> None:
    [section] = drain_reads.run(bench)
    assert [row[0] for row in figures(section)] == ["nobody", "the drain", "nobody", "the same, bare"]


@pytest.mark.long
def test_clients(bench: BenchContext) -> None:
    [section] = client_reads.run_reads(bench, Path(sys.executable), (4 * KIB,), (2,))
    assert [row[0] for row in figures(section)] == [
        "boto3",
        "aiohttp",
        "forebay_client over HTTP",
        "forebay_client over HTTP, `get_into`",
        "forebay_client, shared memory",
        "forebay_client, shared memory, a key for everything",
    ]
    assert section.remarks.startswith("Not installed, so not measured: obstore, s3torchconnector")
    [shares] = client_reads.run_shares(bench, sizes=(128 * KIB,))
    assert [row[0] for row in figures(shares)] == ["128 KiB"] * 2
    [batches] = client_batches.run_batches(bench, Path(sys.executable), 20)
    assert len(figures(batches)) == 4
    for run in (client_batches.run_loose, client_batches.run_large):
        [loose] = run(bench, Path(sys.executable), 20)
        assert len(figures(loose)) == 5


def test_a_plot_has_a_mark_for_each_measurement(tmp_path: Path) -> None:
    measured = Curve("a < b", ((0.2, 0.1), (0.4, 0.3)))
    law = Curve("law", ((0.0, 0.0), (1.0, 1.0)), is_line=True)
    write_plot(tmp_path / "plots" / "a.svg", [measured, law], "x", "y")
    drawn = (tmp_path / "plots" / "a.svg").read_text()
    assert fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert drawn.count("<circle") == len(measured.points) + 1  # and one in the legend
    assert "a &lt; b" in drawn


def test_a_part_is_replaced_and_the_others_stay() -> None:
    facts = Table(("fact", ""), [(name, name) for name in ("date", "CPU", "cores", "memory", "Python", "nginx")])
    text = part_text([Section("Title", "Text.", None)], facts, 2.0, (1.0, 3.0), 0.25)
    assert text.startswith("## Title\n\nText.\n\n*Measured date in 2 minutes: CPU, cores cores")
    assert text.endswith("1.0 before it and 3.0 at its end; other programs had 25% of the cores meanwhile.*")
    reduced = part_text([], facts, 2.0, (1.0, 3.0), 0.25, "make bench-epochs PARTS=plans")
    assert "Open: the part at its whole size, which `make bench-epochs PARTS=plans` measures" in reduced
    page_of_old = parted_page(
        "epochs", list(PARTED["epochs"]), "", {"shares": "old", "plans": text, "first-listing": "kept"}
    )
    assert "`make bench-epochs PARTS=listings` measures it" in page_of_old
    new = parted_page("epochs", list(PARTED["epochs"]), page_of_old, {"shares": "new"})
    assert new == page_of_old.replace("\nold\n", "\nnew\n") != page_of_old


def test_the_load_of_others_leaves_out_our_own() -> None:
    assert others_share(3.0, 1.0, 4.0) == 0.5
    assert others_share(1.0, 1.01, 4.0) == 0.0  # the kernel counts the cores' time in coarser steps than ours
    assert others_share(9.0, 1.0, 4.0) == 1.0


def test_the_page_holds_the_machine_and_every_section() -> None:
    section = Section("Title", "Text.", Table(("a", "b"), [("1", "2")]), "Remark.")
    text = page(Table(("fact", ""), [("cores", "2")]), [section], 60.0)
    assert "| cores | 2 |" in text
    assert "## Title\n\nText.\n\n| a | b |\n| --- | ---: |\n| 1 | 2 |\n\nRemark." in text


def test_refusals_and_broken_requests_are_no_figures() -> None:
    line = '{{"requests": 10, "micros": 2000000, "bytes": 9, "p50": 5, "p99": 7, "refused": {}, "broken": {}}}\n'
    assert parsed("Running 2s test\n" + line.format(0, 0)).rate == 5
    for counts in ((1, 0), (0, 1)):
        with pytest.raises(UnexpectedResponse):
            parsed(line.format(*counts))


def test_numbers_as_people_read_them() -> None:
    assert [time_text(seconds) for seconds in (1.5, 0.0123, 0.000_004, 0.0)] == ["1.50 s", "12.3 ms", "4.00 µs", "–"]
    assert [size_text(size) for size in (4096, 8 << 20, 602_112)] == ["4 KiB", "8 MiB", "602,112 B"]
    assert [percentile(range(100), share) for share in (0.0, 0.5, 0.99, 1.0)] == [0, 50, 99, 99]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed: make peers")
def test_wrk(tmp_path: Path) -> None:
    quickest = BenchContext(TINY, tmp_path, None, None, shutil.which("wrk"))
    hits, _, pipelined, *_ = warm.run(quickest)
    assert [row[1] for row in figures(pipelined)] == ["16, 16 at once"]
    assert "wrk for 4 KiB, own for 100,000 B" in hits.remarks


def test_each_target_has_a_request() -> None:
    targets = [f"/bench/many/{number:05}" for number in range(DISTINCT + 1)]
    requests = signed(1, targets, 1e9)
    assert [request.split()[1].decode() for request in requests] == targets
