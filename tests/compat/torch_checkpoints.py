"""Checkpoints by a connector for PyTorch: S3's and OSS's have the same reader and writer. For errands, in whose
environment torch is installed."""

from typing import Any

import torch

from compat.errand import SMALL, equal, same


def save(checkpoint: Any, place: str, files: int, large: bytes) -> None:
    """A checkpoint, `files` small objects to train with, and a large one, written piece by piece."""
    with checkpoint.writer(f"{place}/checkpoints/small.pt") as file:
        torch.save({"weights": torch.arange(1000), "name": "first"}, file)
    for number in range(files):
        with checkpoint.writer(f"{place}/train/{number:02}.bin") as file:
            file.write(SMALL[number:])
    with checkpoint.writer(f"{place}/large/large.bin") as file:
        for start in range(0, len(large), 1 << 20):
            file.write(large[start : start + (1 << 20)])


def load_twice(checkpoint: Any, place: str, large: bytes) -> None:
    """The checkpoint and the large object, as they were saved."""
    for _ in range(2):
        with checkpoint.reader(f"{place}/checkpoints/small.pt") as file:
            equal(torch.load(file)["weights"].tolist(), list(range(1000)))
        with checkpoint.reader(f"{place}/large/large.bin") as file:
            same(file.read(), large)
