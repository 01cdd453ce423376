"""What a training script does, and how long it takes: run by training/training.py with a Python that has PyTorch.

    python epoch.py '{"endpoint": ..., "bucket": ..., "prefix": ..., "count": ..., "workers": ..., ...}'

Samples are float32 tensors of 3 x 224 x 224, an object or a file each. A DataLoader gives batches, in a new order each
epoch; a batch is "trained on" for a fixed time, in which the CPU is free, as it is beside a GPU. Prints one line of
JSON: the seconds of each epoch, the first of which was over other samples and is there to have workers and connections
ready. With `threads` there is no training: so many threads read all objects once, with one client.

Nothing of Forebay is imported here: this is the unchanged client.
"""

import json
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import torch
from botocore.config import Config
from torch.utils.data import DataLoader, Dataset, Sampler

SHAPE = (3, 224, 224)
SIZE = 4 * 3 * 224 * 224
CREDENTIALS = {"aws_access_key_id": "trainer", "aws_secret_access_key": "trainer-secret", "region_name": "us-east-1"}


def client_of(asked: dict[str, Any], connections: int) -> Any:
    """boto3 as it comes, but for path style addressing, and as many connections as there are threads."""
    config = Config(s3={"addressing_style": "path"}, max_pool_connections=connections)
    return boto3.client("s3", endpoint_url=asked["endpoint"], config=config, **CREDENTIALS)


class Samples(Dataset):
    """Index -> tensor. The client is made in the worker that uses it."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self.asked = asked
        self.client: Any = None

    def __len__(self) -> int:
        count: int = self.asked["count"]
        return count

    def __getitem__(self, index: int) -> Any:
        name = f"{self.asked['prefix']}/{index:05}"
        if self.asked.get("directory"):
            raw = Path(self.asked["directory"], name).read_bytes()
        else:
            if self.client is None:
                self.client = client_of(self.asked, 1)
            raw = self.client.get_object(Bucket=self.asked["bucket"], Key=name)["Body"].read()
        if len(raw) != SIZE:
            raise SystemExit(f"{name} has {len(raw)} bytes")
        return torch.frombuffer(bytearray(raw), dtype=torch.float32).reshape(SHAPE)


class Order(Sampler):
    """The indices of the next epoch."""

    def __init__(self) -> None:
        self.indices: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices)

    def __len__(self) -> int:
        return len(self.indices)


def train(asked: dict[str, Any]) -> list[float]:
    ready, count, batch = asked["ready"], asked["count"], asked["batch"]
    order = Order()
    loader = DataLoader(
        Samples(asked), batch_size=batch, sampler=order, num_workers=asked["workers"], persistent_workers=True
    )
    epochs = [list(range(count - ready, count)), *([list(range(count - ready))] * asked["epochs"])]
    seconds = []
    for number, indices in enumerate(epochs):
        order.indices = random.Random(number).sample(indices, len(indices))
        started = time.perf_counter()
        for tensors in loader:
            time.sleep(  # noqa: TID251 # the accelerator is at work, and the CPU is not
                asked["seconds_per_sample"] * len(tensors)
            )
        seconds.append(time.perf_counter() - started)
    return seconds


def read(asked: dict[str, Any]) -> list[float]:
    client = client_of(asked, asked["threads"])

    def one(index: int) -> int:
        name = f"{asked['prefix']}/{index:05}"
        return len(client.get_object(Bucket=asked["bucket"], Key=name)["Body"].read())

    with ThreadPoolExecutor(asked["threads"]) as pool:
        ready = asked["count"] - asked["ready"]
        seconds = []
        for indices in (range(ready, asked["count"]), *([range(ready)] * asked["epochs"])):
            started = time.perf_counter()
            if sum(pool.map(one, indices)) != SIZE * len(indices):
                raise SystemExit("objects of another size")
            seconds.append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(read(asked) if asked.get("threads") else train(asked)))
