"""Epochs that several processes with boto3 read: benchmarks/client_scripts/boto_epochs.py, and what it is told."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP
from benchmarks.origins.origin import BUCKET, Objects
from benchmarks.processes.client_scripts import script_output
from benchmarks.run_sizes import TENSOR, RunSizes

_READER: Final = "boto_epochs.py"
_PATIENCE: Final = 900.0
SMALL: Final = 20_000
"""Bytes of a small sample."""
PREFIXES: Final = {TENSOR: "tensors", SMALL: "small"}
TEXT: Final = f"""\
Reader processes with a boto3 client each, unmodified
([boto_epochs.py](../benchmarks/client_scripts/boto_epochs.py)): batches of 16 samples are dealt to them in
turns, and after each sample a reader computes for {{compute:g}} ms, in which its CPU is free. The origin is
{ROUND_TRIP * 1000:g} ms away, over connections of {BANDWIDTH / 1e6:g} MB/s; its objects were put at once, so that
Forebay needs no HEAD beside each GET for the checksums that boto3 asks for. It stands on the cores that are measured,
which a far one does not, so it answers plain reads by as few steps as it can
([plain_reads.py](../benchmarks/origins/plain_reads.py)), in every column alike."""


class ReaderCase(NamedTuple):
    """A data set, and how many readers it has."""

    size: int
    samples: int
    readers: int

    @property
    def prefix(self) -> str:
        return PREFIXES[self.size]


class ReadEpoch(NamedTuple):
    """An epoch that was read. In seconds."""

    seconds: float
    watched: tuple[float, ...]
    """CPU of the processes watched."""
    readers: float
    """CPU of all readers together."""
    arrivals: tuple[float, ...]
    """When each sample was there, from the first on."""


def reader_cases(sizes: RunSizes) -> list[ReaderCase]:
    """Tensors and small samples, each with every number of readers."""
    counts = zip((TENSOR, SMALL), sizes.plan_samples, strict=True)
    return [ReaderCase(size, count, readers) for size, count in counts for readers in sizes.plan_readers if count]


def long_cases(sizes: RunSizes) -> list[ReaderCase]:
    """More tensors, with every number of readers."""
    return [ReaderCase(TENSOR, sizes.plan_long, readers) for readers in sizes.plan_readers if sizes.plan_long]


def data_sets(cases: Sequence[ReaderCase]) -> dict[str, Objects]:
    """What the origin has of them: one object more of each, which is read before an epoch begins."""
    most = {case.prefix: max(each.samples for each in cases if each.prefix == case.prefix) for case in cases}
    return {case.prefix: Objects(case.size, most[case.prefix] + 1) for case in cases}


def epoch_seconds(port: int, case: ReaderCase, compute: float, *, epochs: int, plans: int = 0) -> list[float]:
    """The seconds of each epoch, as `read_epochs` has them."""
    return [each.seconds for each in read_epochs(port, case, compute, epochs=epochs, plans=plans)]


def read_epochs(
    port: int,
    case: ReaderCase,
    compute: float,
    *,
    epochs: int,
    plans: int = 0,
    begins: Mapping[int, str] = MappingProxyType({}),
    watched: Sequence[int] = (),
) -> list[ReadEpoch]:
    """Epochs that are read through whatever listens at `port`. The order of an epoch is the same in each call. `plans`:
    a plan is sent before each of so many epochs, the first ones. `begins`: URLs that are asked for before an epoch, by
    its number from 0. `watched`: process ids."""
    found = script_output(
        _READER,
        {
            "endpoint": f"http://127.0.0.1:{port}",
            "bucket": BUCKET,
            "prefix": case.prefix,
            "count": case.samples,
            "size": case.size,
            "readers": case.readers,
            "compute": compute,
            "epochs": epochs,
            "plans": plans,
            "begins": dict(begins),
            "seed": 1,
            "patience": _PATIENCE,
            "watched": list(watched),
        },
        _PATIENCE,
    )
    return [
        ReadEpoch(each["seconds"], tuple(each["watched"]), each["readers"], tuple(each["arrivals"])) for each in found
    ]
