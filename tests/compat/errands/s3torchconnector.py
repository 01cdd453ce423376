"""s3torchconnector (the AWS CRT): data sets for PyTorch, and checkpoints."""

from importlib.metadata import version

from s3torchconnector import (
    S3Checkpoint,
    S3ClientConfig,
    S3IterableDataset,
    S3MapDataset,
    S3ReaderConstructor,
)

from compat import torch_checkpoints
from compat.errand import LARGE, SMALL, Errand, equal, same

FILES = 12


def main() -> None:
    errand = Errand.begin(version("s3torchconnector"))
    where = {
        "region": errand.region,
        "endpoint": errand.endpoint,
        "s3client_config": S3ClientConfig(force_path_style=True, part_size=5 << 20),
    }
    place = f"s3://{errand.bucket}"
    checkpoint = S3Checkpoint(**where)

    torch_checkpoints.save(checkpoint, place, FILES, LARGE)
    errand.did("parts up")

    torch_checkpoints.load_twice(checkpoint, place, LARGE)
    errand.again("checkpoints/small.pt")
    errand.did("get")
    errand.again("large/large.bin")
    errand.did("ranges down")

    for _ in range(2):
        ordered = S3IterableDataset.from_prefix(f"{place}/train/", **where)
        for number, found in enumerate(ordered):
            same(found.read(), SMALL[number:])
        equal(number, FILES - 1)
    random = S3MapDataset.from_prefix(f"{place}/train/", transform=lambda found: found.read(), **where)
    equal(len(random), FILES)
    same(random[7], SMALL[7:])
    errand.again("train/07.bin")
    errand.did("list")

    reader = S3ReaderConstructor.range_based()
    (one,) = S3IterableDataset.from_objects([f"{place}/large/large.bin"], reader_constructor=reader, **where)
    one.seek(7_000_000)
    same(one.read(1000), LARGE[7_000_000:7_001_000])
    errand.did("range")


main()
