"""PyTorch's DataLoader with two worker processes over boto3: the data set that people write themselves."""

from typing import Any

import boto3
import torch
from botocore.config import Config
from torch.utils.data import DataLoader, Dataset

from compat.errand import SMALL, Errand, equal, same

FILES = 24


class Objects(Dataset):
    """The objects below train/, as tensors; the client is made in the worker process that uses it."""

    def __init__(self, endpoint: str, bucket: str) -> None:
        self.endpoint, self.bucket = endpoint, bucket
        found = self.client().list_objects_v2(Bucket=bucket, Prefix="train/")["Contents"]
        self.keys = [row["Key"] for row in found]
        self.own: Any = None

    def client(self) -> Any:
        return boto3.client("s3", endpoint_url=self.endpoint, config=Config(s3={"addressing_style": "path"}))

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, number: int) -> tuple[int, Any]:
        self.own = self.own or self.client()
        body = self.own.get_object(Bucket=self.bucket, Key=self.keys[number])["Body"].read()
        return number, torch.frombuffer(bytearray(body), dtype=torch.uint8)


def main() -> None:
    errand = Errand.begin(torch.__version__.partition("+")[0])
    client = boto3.client("s3", endpoint_url=errand.endpoint, config=Config(s3={"addressing_style": "path"}))
    for number in range(FILES):
        client.put_object(Bucket=errand.bucket, Key=f"train/{number:02}.bin", Body=SMALL[number:] + bytes(number))
    errand.did("put")

    objects = Objects(errand.endpoint, errand.bucket)
    equal(len(objects), FILES)
    errand.did("list")

    for _epoch in range(2):
        seen = []
        for numbers, tensors in DataLoader(objects, batch_size=4, shuffle=True, num_workers=2):
            for number, tensor in zip(numbers.tolist(), tensors, strict=True):
                same(tensor.numpy().tobytes(), SMALL[number:] + bytes(number))
                seen.append(number)
        equal(sorted(seen), list(range(FILES)))
    for key in objects.keys:
        errand.again(key)
    errand.did("get")


if __name__ == "__main__":  # the loader's processes may import this again
    main()
