"""Training: epochs of a PyTorch DataLoader, and plain boto3, from four places."""

import os
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.bench_context import BenchContext
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import BUCKET, Objects, Origin, running_origin
from benchmarks.pages.tables import Section, Table, count_text, time_text
from benchmarks.processes.client_scripts import TORCH_PYTHON, require, script_output
from benchmarks.run_sizes import TENSOR
from benchmarks.servers.forebay import Forebay

_EPOCH: Final = "epoch.py"
_PREFIX: Final = "tensors"
_READY: Final = 384
"""Samples of an epoch before the first that is timed, of others, so that workers and connections are there: a batch for
each worker."""
_PATIENCE: Final = 900.0
_TEXT = f"""\
Tensors of float32, 3 x 224 x 224 ({TENSOR:,} bytes), an object or a file each; a DataLoader in a process of its own
([epoch.py](../benchmarks/client_scripts/epoch.py)), in a new order each epoch, gives them to a stand-in for an
accelerator, which takes {{milliseconds:g}} ms a sample and leaves the CPU alone. Workers read with boto3, one GET a
sample: directly from an origin {ROUND_TRIP * 1000:g} ms away over connections of {BANDWIDTH / 1e6:g} MB/s; through a
Forebay in front of it that has never seen them (cold), and once more (warm, from memory); or they read files from the
page cache. An epoch has as many samples whatever a batch is, as a dataset has. Workers and connections are ready when
it begins, no batch is: the first one comes when a worker has read all of it, while the others read theirs on the same
cores. Everything shares this machine's cores: an epoch can't be shorter than {{least}}, and boto3 needs more CPU for an
object than Forebay and the origin together. Lower is better."""
_BOTO_TEXT = """\
The same objects, read by the threads of one process with one boto3 client, each object once, body included. boto3 is
the limit from some threads on, as Python runs one thread at a time."""


class _Epochs(NamedTuple):
    workers: int
    batch: int
    direct: float
    cold: float
    warm: float
    files: float


def run(bench: BenchContext) -> list[Section]:
    require(TORCH_PYTHON)
    count = bench.sizes.training[0] + _READY
    with running_origin(
        bench.directory, {_PREFIX: Objects(TENSOR, count)}, [Link(ROUND_TRIP, BANDWIDTH)], pinned=False
    ) as origin:
        files = _files(bench.directory / "files", count)
        epochs = [
            _epochs(bench, origin, files, workers, batch)
            for batch in bench.sizes.training_batches
            for workers in bench.sizes.training_workers
        ]
        boto = [_boto(bench, origin, threads) for threads in bench.sizes.boto_threads]
    return [_training(epochs, *bench.sizes.training), Section("boto3", _BOTO_TEXT, Table(_BOTO_HEADINGS, boto))]


def _files(directory: Path, count: int) -> Path:
    folder = directory / _PREFIX
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"{number:05}").write_bytes(os.urandom(TENSOR))
    return directory


def _epochs(bench: BenchContext, origin: Origin, files: Path, workers: int, batch: int) -> _Epochs:
    asked = {
        "bucket": BUCKET,
        "prefix": _PREFIX,
        "count": bench.sizes.training[0] + _READY,
        "ready": _READY,
        "workers": workers,
        "batch": batch,
        "seconds_per_sample": bench.sizes.training[1],
        "epochs": 1,
    }
    local = _run(asked | {"directory": str(files)})
    direct = _run(asked | {"endpoint": f"http://127.0.0.1:{origin.far[0]}"})
    forebay = Forebay(bench.directory / f"forebay-{workers}-{batch}", origin.far[0], memory="4GiB")
    with forebay.start() as child:
        forebay.first_answer(child, origin.targets(_PREFIX)[-1])
        cold, warm = _run(asked | {"endpoint": f"http://127.0.0.1:{forebay.port}", "epochs": 2})
    return _Epochs(workers, batch, direct[0], cold, warm, local[0])


def _run(asked: dict[str, Any]) -> list[float]:
    """The seconds of each epoch."""
    seconds: list[float] = script_output(_EPOCH, asked, _PATIENCE, python=TORCH_PYTHON)
    return seconds[1:]


def _training(epochs: list[_Epochs], samples: int, per_sample: float) -> Section:
    rows = [
        (
            f"{each.batch}",
            f"{each.workers}",
            time_text(each.direct),
            time_text(each.cold),
            time_text(each.warm),
            time_text(each.files),
            f"{each.direct / each.warm:.1f}",
            f"**{each.warm / each.files:.3f}**",
        )
        for each in epochs
    ]
    headings = (
        "batch",
        "workers",
        "direct",
        "Forebay, cold",
        "Forebay, warm",
        "local files",
        "direct by warm",
        "warm by local files",
    )
    spreads = []
    for batch in dict.fromkeys(each.batch for each in epochs):
        warm = [each.warm for each in epochs if each.batch == batch]
        spreads.append(f"{max(warm) / min(warm) - 1:.1%} at batch {batch}")
    remark = f"Warm epochs with different numbers of workers differ by {', '.join(spreads)}."
    text = _TEXT.format(milliseconds=per_sample * 1000, least=time_text(samples * per_sample))
    return Section(f"Epochs of {samples:,} samples", text, Table(headings, rows), remark)


_BOTO_HEADINGS: Final = ("threads", "direct", "Forebay, cold", "Forebay, warm", "warm by direct")


def _boto(bench: BenchContext, origin: Origin, threads: int) -> tuple[str, ...]:
    """Objects a second."""
    objects = bench.sizes.boto_objects
    asked = {"bucket": BUCKET, "prefix": _PREFIX, "count": objects + threads, "ready": threads, "threads": threads}
    [direct] = _run(asked | {"endpoint": f"http://127.0.0.1:{origin.far[0]}", "epochs": 1})
    forebay = Forebay(bench.directory / f"forebay-boto-{threads}", origin.far[0], memory="2GiB")
    with forebay.start() as child:
        forebay.first_answer(child, origin.targets(_PREFIX)[-1])
        cold, warm = _run(asked | {"endpoint": f"http://127.0.0.1:{forebay.port}", "epochs": 2})
    rates = [f"{count_text(objects / seconds)}/s" for seconds in (direct, cold, warm)]
    return (str(threads), *rates, f"**{direct / warm:.1f}**")
