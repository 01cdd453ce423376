"""An unchanged training script over boto3: prints what it read, and the state of the generators at its end."""

import json
import sys
from typing import Any

import boto3
import torch
from torch.utils.data import DataLoader, Dataset


class Objects(Dataset):
    """Objects of a bucket, by boto3."""

    def __init__(self) -> None:
        self.bucket = "bucket"
        self.keys = [f"train/{number:02}.bin" for number in range(40)]
        self.client: Any = None

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> int:
        self.client = self.client or boto3.client("s3")
        body = self.client.get_object(Bucket=self.bucket, Key=self.keys[index])["Body"].read()
        return int(body[0])


def main() -> None:
    torch.manual_seed(3)
    read = []
    for start in sys.argv[1:]:
        workers, context = (0, None) if start == "none" else (2, start)
        options = {"num_workers": workers, "multiprocessing_context": context, "persistent_workers": workers > 0}
        loader = DataLoader(Objects(), 8, shuffle=True, **options)
        for _ in range(2):
            read.append([batch.tolist() for batch in loader])
            read.append(torch.rand(1).item())
    print(json.dumps([read, torch.get_rng_state().sum().item()]))  # noqa: T201 # what the test reads


if __name__ == "__main__":
    main()
