"""Mounts: warm epochs of many small samples through shared memory, beside local files read by the same loop."""

import os
import random
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks import ROOT
from benchmarks.bench_context import BenchContext
from benchmarks.origins.origin import BUCKET, Objects, running_origin
from benchmarks.pages.tables import Section, Table, count_text, size_text, time_text
from benchmarks.processes import cores
from benchmarks.processes.client_scripts import TORCH_PYTHON, require, script_output

WORKERS: Final = 2
BATCHES: Final = (64, 256)
_SIZE: Final = 20_000
_PATIENCE: Final = 300.0
_EPOCHS: Final = "mounted_epochs.py"
_WARM: Final = 8
_WAYS: Final = {
    "files": "local files",
    "client": "forebay_client, shared memory",
    "client, planned": "forebay_client, shared memory, `planned(loader)`",
}
_TEXT: Final = """\
{count} samples of {size}, read whole in a new order each epoch by a DataLoader with {workers} workers
([mounted_epochs.py](../benchmarks/client_scripts/mounted_epochs.py)), from Forebay's memory and from local
files in the page cache. All of it was read before; medians of {warm} epochs, of {rounds} turns in drawn order. CPU is
that of a sample: the job's own with its loader's workers, and Forebay's. They share this machine's cores, so where
cores are scarce an epoch takes as long as its CPU: the last column compares that. A batch is one request, so small ones
cost more a sample. A plan costs Forebay a look at each entry, whether it has to be fetched or not: where all of a data
set is cached, `planned` gains nothing, and a loader without it reads faster."""


class _Turn(NamedTuple):
    """Seconds of an epoch."""

    seconds: float
    job: float
    server: float

    @property
    def cpu(self) -> float:
        return self.job + self.server


def run_samples(bench: BenchContext, count: int | None = None, batches: tuple[int, ...] = BATCHES) -> list[Section]:
    """Warm epochs of small samples."""
    require(TORCH_PYTHON)
    number = count or (512 if bench.sizes.rounds == 1 else 4000)
    files = bench.directory / "local"
    (files / "files").mkdir(parents=True)
    for each in range(number):
        (files / "files" / f"{each:05}").write_bytes(os.urandom(_SIZE))
    rows = []
    with running_origin(bench.directory, {"files": Objects(_SIZE, number)}, pinned=False) as origin:
        forebay = bench.forebay_with_socket(origin.port)
        with forebay.start() as child:
            forebay.first_answer(child, f"/{BUCKET}/files/00000")
            for batch in batches:
                asked = {"prefix": "files", "bucket": BUCKET, "count": number, "size": _SIZE, "batch": batch}
                asked |= {"workers": WORKERS, "epochs": _WARM, "directory": str(files)}
                asked |= {"endpoint": f"http://127.0.0.1:{forebay.port}", "servers": cores.workers_of(child.pid)}
                asked |= {"paths": [str(ROOT / "client"), str(ROOT / "proxy")]}
                rows += _rows(bench, batch, number, asked)
    text = _TEXT.format(
        count=count_text(number), size=size_text(_SIZE), workers=WORKERS, warm=_WARM, rounds=bench.sizes.rounds
    )
    headings = ("batch", "way", "epoch", "files' time by it", "job's CPU", "Forebay's", "both, by files'")
    return [Section(f"{count_text(number)} samples of {size_text(_SIZE)}, warm", text, Table(headings, rows))]


def _rows(bench: BenchContext, batch: int, number: int, asked: dict[str, Any]) -> list[tuple[str, ...]]:
    turns: dict[str, list[_Turn]] = {way: [] for way in _WAYS}
    for _ in range(bench.sizes.rounds):
        for way in random.sample(tuple(_WAYS), len(_WAYS)):
            name, _, planned = way.partition(", ")
            found = script_output(
                _EPOCHS, {**asked, "way": name, "planned": bool(planned)}, _PATIENCE, python=TORCH_PYTHON
            )
            server = found["server"] if name == "client" else 0.0
            turns[way].append(_Turn(found["seconds"], found["job"], server))
    medians = {way: _Turn(*(median(column) for column in zip(*each, strict=True))) for way, each in turns.items()}
    files = medians["files"]
    return [
        (
            str(batch),
            name,
            time_text(medians[way].seconds),
            f"**{files.seconds / medians[way].seconds:.2f}**",
            time_text(medians[way].job / number),
            time_text(medians[way].server / number) if way != "files" else "",
            f"{medians[way].cpu / files.cpu:.2f}",
        )
        for way, name in _WAYS.items()
    ]
