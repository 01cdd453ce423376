"""Epochs of a PyTorch DataLoader over files of a folder, objects by boto3, or objects by forebay_client, and loads of a
distributed checkpoint: run by benchmarks/mounts/mounts.py in the environment of PyTorch.

    python mounted_epochs.py '{"way": "files" | "boto3" | "client", ...}'       the seconds of each epoch
    python mounted_epochs.py '{"servers": [pid, ...], ...}'   medians of all but the first: seconds, CPU of both sides
    python mounted_epochs.py '{"way": "dcp", "reader": "ours" | "s3torchconnector", ...}'    of each load
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

KEYS = {"aws_access_key_id": "trainer", "aws_secret_access_key": "trainer-secret", "region_name": "us-east-1"}


class Files(Dataset):
    """Files of a folder: local ones, or those of a mount."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked

    def __len__(self) -> int:
        count: int = self.asked["count"]
        return count

    def read(self, name: str) -> bytes:
        return Path(self.asked["directory"], name).read_bytes()

    def __getitem__(self, index: int) -> int:
        raw = self.read(f"{self.asked['prefix']}/{index:05}")
        return int(torch.frombuffer(bytearray(raw), dtype=torch.uint8).numel())


class Boto3(Files):
    """The same objects, one GET each."""

    client: Any = None

    def read(self, name: str) -> bytes:
        if self.client is None:
            import boto3
            from botocore.config import Config

            config = Config(s3={"addressing_style": "path"})
            self.client = boto3.client("s3", endpoint_url=self.asked["endpoint"], config=config, **KEYS)
        body: bytes = self.client.get_object(Bucket=self.asked["bucket"], Key=name)["Body"].read()
        return body


def length(sample: Any) -> int:
    return int(torch.frombuffer(sample.view, dtype=torch.uint8).numel())


def loader_of(asked: dict[str, Any]) -> Any:
    options = {
        "batch_size": asked["batch"],
        "shuffle": True,
        "num_workers": asked["workers"],
        "persistent_workers": True,
    }
    if asked["way"] != "client":
        return DataLoader({"files": Files, "boto3": Boto3}[asked["way"]](asked), **options)
    from forebay_client import Client
    from forebay_client.torch import ForebayMapDataset, planned

    client = Client(asked["endpoint"], access_key="trainer", secret_key="trainer-secret", region="us-east-1")
    keys = [f"{asked['prefix']}/{number:05}" for number in range(asked["count"])]
    dataset = ForebayMapDataset.from_keys(asked["bucket"], keys, client=client, transform=length)
    loader = DataLoader(dataset, **options)
    return planned(loader) if asked.get("planned", True) else loader


def epochs(asked: dict[str, Any]) -> list[float]:
    torch.manual_seed(random.randrange(1 << 30))
    loader = loader_of(asked)
    return [epoch(loader, asked) for _ in range(asked["epochs"])]


def epoch(loader: Any, asked: dict[str, Any]) -> float:
    started = time.perf_counter()
    total = sum(int(batch.sum()) for batch in loader)
    seconds = time.perf_counter() - started
    if total != asked["count"] * asked["size"]:
        raise SystemExit(f"{total} bytes were read")
    return seconds


def counted_epochs(asked: dict[str, Any]) -> dict[str, float]:
    torch.manual_seed(random.randrange(1 << 30))
    loader = loader_of(asked)
    epoch(loader, asked)  # which starts the workers, and has Forebay fetch what it has not
    workers = [each.pid for each in loader._iterator._workers]  # noqa: SLF001 # the loader has no public way
    job = [os.getpid(), *workers]
    rows = []
    for _ in range(asked["epochs"]):
        before = cpu_seconds(job), cpu_seconds(asked["servers"])
        seconds = epoch(loader, asked)
        rows.append((seconds, cpu_seconds(job) - before[0], cpu_seconds(asked["servers"]) - before[1]))
    return dict(zip(("seconds", "job", "server"), map(median, zip(*rows, strict=True)), strict=True))


def cpu_seconds(processes: list[int]) -> float:
    """CPU seconds of processes, by the clock that Linux has for each: clock_getcpuclockid(3)."""
    return sum(time.clock_gettime(~process << 3 | 2) for process in processes)


def loads(asked: dict[str, Any]) -> list[float]:
    import torch.distributed.checkpoint as dcp

    from forebay_client import Client
    from forebay_client.torch import ForebayStorageReader, ForebayStorageWriter

    count = asked["size"] // 8 // 4
    generator = torch.Generator().manual_seed(1)
    weights = {f"layer.{number}": torch.rand(count, generator=generator) for number in range(8)}
    uri = f"s3://{asked['bucket']}/dcp"
    client = Client(asked["endpoint"], access_key="trainer", secret_key="trainer-secret", region="us-east-1")
    if asked["saves"]:
        dcp.save(weights, storage_writer=ForebayStorageWriter(uri, client=client, overwrite=True), no_dist=True)
    seconds = []
    for _ in range(asked["epochs"]):
        target = {name: torch.zeros(count) for name in weights}
        started = time.perf_counter()
        if asked["reader"] == "ours":
            reader: Any = ForebayStorageReader(uri, client=client)
        else:
            import s3torchconnector.dcp as connector
            from s3torchconnector import S3ClientConfig

            os.environ.update(
                AWS_ENDPOINT_URL=asked["endpoint"], AWS_ACCESS_KEY_ID="trainer", AWS_SECRET_ACCESS_KEY="trainer-secret"
            )
            reader = connector.S3StorageReader("us-east-1", uri, s3client_config=S3ClientConfig(force_path_style=True))
        dcp.load(target, storage_reader=reader, no_dist=True)
        seconds.append(time.perf_counter() - started)
        if any(not torch.equal(target[name], weights[name]) for name in weights):
            raise SystemExit("not what was saved")
    return seconds


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    sys.path[:0] = asked["paths"]
    run = loads if asked["way"] == "dcp" else counted_epochs if "servers" in asked else epochs
    print(json.dumps(run(asked)))
