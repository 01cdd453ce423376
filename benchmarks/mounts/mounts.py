"""Mounts: epochs over a bucket that is mounted, beside boto3 and the client library through Forebay, and local files;
and loads of a distributed checkpoint."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks import ROOT
from benchmarks.bench_context import BenchContext
from benchmarks.errors import UnexpectedResponse
from benchmarks.origins.link import BANDWIDTH, ROUND_TRIP, Link
from benchmarks.origins.origin import BUCKET, Objects, running_origin
from benchmarks.pages.tables import Section, Table, size_text, time_text
from benchmarks.processes.client_scripts import TORCH_PYTHON, require, script_output
from benchmarks.run_sizes import MIB
from benchmarks.servers.forebay import TEMPLATE, Forebay, socket_template

RCLONE: Final = ROOT / ".clients" / "rclone" / "bin" / "rclone"
WORKERS: Final = 2
_EPOCHS: Final = "mounted_epochs.py"
_PATIENCE: Final = 300.0
_SMALL: Final = Objects(20_000, 300)
_LARGE: Final = Objects(8 * MIB, 12)
_CHECKPOINT: Final = 256 * MIB
_WRITABLE: Final = '{ path = "bench/dcp/**", allow = ["read", "write", "list", "delete"] },'
_TEXT: Final = f"""\
{{count}} objects or files of {{size}}, read whole in a new order each epoch by a DataLoader with {WORKERS} workers
([mounted_epochs.py](../benchmarks/client_scripts/mounted_epochs.py)), from an origin {ROUND_TRIP * 1000:g} ms
away over connections of {BANDWIDTH / 1e6:g} MB/s. The mounts go to the origin, with their caches on the local disk
(rclone: `--vfs-cache-mode full`; s3fs: `use_cache` and its stat cache); boto3 and forebay_client go through a Forebay
each with memory for all of it, forebay_client with `planned(loader)`; shared memory: that Forebay has a
`server.socket`, which the client finds by itself. Cold: nothing of it was read before. Warm: the median of {{warm}}
further epochs. Everything shares this machine's cores, and each way runs alone. What is not installed is left out."""
_WAYS: Final = {
    "client, socket": "forebay_client through Forebay, shared memory",
    "client": "forebay_client through Forebay, HTTP",
    "boto3": "boto3 through Forebay",
}
"""The first is what the others are compared with."""
_WARM: Final = 6
"""Epochs."""


class _Way(NamedTuple):
    name: str
    cold: float
    warm: float


def run_small(bench: BenchContext, objects: Objects = _SMALL) -> list[Section]:
    """Files of 20 KB."""
    return [_section(bench, objects, 64)]


def run_large(bench: BenchContext, objects: Objects = _LARGE) -> list[Section]:
    """Files of 8 MiB."""
    return [_section(bench, objects, 2)]


def missing() -> str | None:
    """Why no mount can be measured here; None: one can be."""
    if not Path("/dev/fuse").exists():
        return "there is no /dev/fuse"
    if not RCLONE.exists() and shutil.which("s3fs") is None:
        return "neither rclone nor s3fs is installed (make clients)"
    return None


def _section(bench: BenchContext, objects: Objects, batch: int) -> Section:
    require(TORCH_PYTHON)
    prefix = "files"
    asked = {"prefix": prefix, "bucket": BUCKET, "count": objects.number, "size": objects.size, "batch": batch}
    files = bench.directory / "local"
    (files / prefix).mkdir(parents=True)
    for number in range(objects.number):
        (files / prefix / f"{number:05}").write_bytes(os.urandom(objects.size))
    ways = [_epochs("local files", {**asked, "way": "files", "directory": str(files)})]
    with running_origin(bench.directory, {prefix: objects}, [Link(ROUND_TRIP, BANDWIDTH)], pinned=False) as origin:
        for number, (name, title) in enumerate(_WAYS.items()):
            way, _, socket = name.partition(", ")
            directory = bench.directory / f"forebay-{number}"
            template = socket_template(directory) if socket else TEMPLATE
            forebay = Forebay(directory, origin.far[0], memory="2GiB", template=template)
            with forebay.start() as child:
                forebay.first_answer(child, f"/{BUCKET}/{prefix}/00000")
                ways.append(_epochs(title, {**asked, "way": way, "endpoint": f"http://127.0.0.1:{forebay.port}"}))
        if missing() is None:
            for title, mount in (("rclone mount", _rclone), ("s3fs-fuse", _s3fs)):
                scratch = bench.directory / title.split()[0]
                with mount(scratch, f"http://127.0.0.1:{origin.far[0]}") as folder:
                    if folder is not None:
                        ways.append(_epochs(title, {**asked, "way": "files", "directory": str(folder)}))
    return _written(ways, objects)


def _epochs(name: str, asked: dict[str, Any]) -> _Way:
    paths = [str(ROOT / "client"), str(ROOT / "proxy")]
    more = {"workers": WORKERS, "epochs": 1 + _WARM, "paths": paths}
    print(f"{name} ...", file=sys.stderr, flush=True)
    cold, *warm = script_output(_EPOCHS, {**asked, **more}, _PATIENCE, python=TORCH_PYTHON)
    return _Way(name, cold, median(warm))


@contextlib.contextmanager
def _rclone(scratch: Path, endpoint: str) -> Iterator[Path | None]:
    if not RCLONE.exists():
        yield None
        return
    remote = (
        f":s3,provider=Other,endpoint='{endpoint}',access_key_id=a,secret_access_key=b,force_path_style=true:{BUCKET}"
    )
    folder = scratch / "mount"
    command = [
        str(RCLONE),
        "mount",
        remote,
        str(folder),
        "--config",
        "/dev/null",
        "--cache-dir",
        str(scratch / "cache"),
    ]
    with _mounted([*command, "--vfs-cache-mode", "full", "--read-only", "--dir-cache-time", "1h"], folder) as mounted:
        yield mounted


@contextlib.contextmanager
def _s3fs(scratch: Path, endpoint: str) -> Iterator[Path | None]:
    if shutil.which("s3fs") is None:
        yield None
        return
    folder, cache, passwords = scratch / "mount", scratch / "cache", scratch / "passwords"
    cache.mkdir(parents=True)
    passwords.write_text("a:b\n")
    passwords.chmod(0o600)
    options = f"passwd_file={passwords},url={endpoint},use_path_request_style,sigv4,endpoint=us-east-1"
    options += f",use_cache={cache},max_stat_cache_size=100000,stat_cache_expire=3600"
    with _mounted(["s3fs", BUCKET, str(folder), "-f", "-o", options], folder) as mounted:
        yield mounted


@contextlib.contextmanager
def _mounted(command: list[str], folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True)
    with (folder.parent / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            for _ in range(600):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = process.wait(timeout=0.05)
                    raise UnexpectedResponse(
                        f"{command[0]} ended with {code}: {(folder.parent / 'log').read_text()[-500:]}"
                    )
                if folder.is_mount():
                    break
            yield folder
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(folder)], check=False)
            process.terminate()
            process.wait(timeout=30)


def _written(ways: list[_Way], objects: Objects) -> Section:
    ours = next(way for way in ways if way.name == next(iter(_WAYS.values())))
    rows = [
        (
            way.name,
            time_text(way.cold) if way.name != "local files" else "",
            time_text(way.warm),
            f"{way.cold / ours.cold:.2f}" if way.name != "local files" else "",
            f"**{way.warm / ours.warm:.2f}**",
        )
        for way in ways
    ]
    headings = ("way", "cold", "warm", "cold, by forebay_client's", "warm, by forebay_client's")
    text = _TEXT.format(count=f"{objects.number:,}", size=size_text(objects.size), warm=_WARM)
    reason = missing()
    remark = f"Mounts were not measured: {reason}." if reason is not None else ""
    return Section(f"Epochs of {size_text(objects.size)}", text, Table(headings, rows), remark)


def run_checkpoint(bench: BenchContext, size: int = _CHECKPOINT, rounds: int = 3) -> list[Section]:
    """Loads of a distributed checkpoint that Forebay has in memory, in turns."""
    require(TORCH_PYTHON)
    with running_origin(bench.directory, {"files": Objects(1000, 1)}, pinned=False) as origin:
        rest = '[[rules]]\npath = "bench/dcp/**"\nwarm_on_write = true\n'
        template = bench.directory / "checkpoints.toml"
        plain = (TEMPLATE).read_text()
        template.write_text(
            plain.replace('{ path = "bench/written/**"', f'{_WRITABLE}\n    {{ path = "bench/written/**"').replace(
                '[[rules]]\npath = "bench/**"', rest + '\n[[rules]]\npath = "bench/**"'
            )
        )
        forebay = Forebay(bench.directory / "forebay", origin.port, memory="2GiB", template=template)
        with forebay.start() as child:
            forebay.first_answer(child, f"/{BUCKET}/files/00000")
            seconds: dict[str, list[float]] = {"ours": [], "s3torchconnector": []}
            for turn in range(rounds):
                for reader, found in seconds.items():
                    asked = {
                        "way": "dcp",
                        "reader": reader,
                        "bucket": BUCKET,
                        "size": size,
                        "epochs": 2,
                        "saves": turn == 0,
                    }
                    asked |= {"endpoint": f"http://127.0.0.1:{forebay.port}"}
                    asked |= {"paths": [str(ROOT / "client"), str(ROOT / "proxy")]}
                    found.append(script_output(_EPOCHS, asked, _PATIENCE, python=TORCH_PYTHON)[-1])
    ours, theirs = (median(found) for found in seconds.values())
    rows = [
        ("ForebayStorageReader", time_text(ours), f"{size / ours / 1e6:,.0f} MB/s", "**1.00**"),
        (
            "s3torchconnector, dcp_optimized",
            time_text(theirs),
            f"{size / theirs / 1e6:,.0f} MB/s",
            f"**{theirs / ours:.2f}**",
        ),
    ]
    text = f"""\
Loads of a checkpoint of {size_text(size)} in eight tensors, one file, by torch.distributed.checkpoint in one process,
from a Forebay that has it in memory; into tensors that are there, and compared with what was saved. In turns, medians
of {rounds}."""
    return [Section("Distributed checkpoints", text, Table(("reader", "load", "rate", "by ours"), rows))]
