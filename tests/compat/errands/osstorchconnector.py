"""osstorchconnector (PhotonLibOS below it): data sets for PyTorch, and checkpoints, with its own defaults.

It always asks BUCKET.ENDPOINT, so that the endpoint must be a name whose subdomains lead to Forebay, and outside of
aliyuncs.com it must be told the region. Its credentials and configuration are files: `connector_files` writes them.
"""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from osstorchconnector import OssCheckpoint, OssIterableDataset, OssMapDataset
from osstorchconnector import imagenet_manifest_parser as manifest_parser
from torch.utils.data import DataLoader

from compat import torch_checkpoints
from compat.errand import LARGE, SMALL, Errand, equal, same

FILES = 6
REGION = "cn-hangzhou"


def connector_files(errand: Errand) -> dict[str, str]:
    """The two files that its makers have people write; their values, but for the keys and the logs' place."""
    credentials, configuration = Path("credentials").absolute(), Path("config.json").absolute()
    credentials.write_text(json.dumps({"AccessKeyId": errand.access, "AccessKeySecret": errand.secret}))
    configuration.write_text(
        json.dumps(
            {
                "logLevel": 1,
                "logPath": str(Path("connector.log").absolute()),
                "auditPath": str(Path("audit.log").absolute()),
                "datasetConfig": {"prefetchConcurrency": 24, "prefetchWorker": 2},
                "checkpointConfig": {"prefetchConcurrency": 24, "prefetchWorker": 4, "uploadConcurrency": 64},
            }
        )
    )
    return {"cred_path": str(credentials), "config_path": str(configuration)}


def main() -> None:
    errand = Errand.begin(version("osstorchconnector"))
    where = {"endpoint": errand.endpoint, "region": REGION, **connector_files(errand)}
    place = f"oss://{errand.bucket}"
    checkpoint = OssCheckpoint(**where)
    _checkpoints(errand, checkpoint, place)
    _data_sets(errand, checkpoint, place, where)


def _checkpoints(errand: Errand, checkpoint: Any, place: str) -> None:
    large = LARGE + LARGE  # more than one of its parts of 16 MiB
    torch_checkpoints.save(checkpoint, place, FILES, large)
    errand.did("parts up")

    torch_checkpoints.load_twice(checkpoint, place, large)
    errand.did("get")
    errand.did("ranges down")

    with checkpoint.reader(f"{place}/large/large.bin") as file:
        file.seek(7_000_000, 0)
        same(file.read(1000), LARGE[7_000_000:7_001_000])
        equal(file.tell(), 7_001_000)
    errand.did("range")

    with checkpoint.writer(f"{place}/checkpoints/small.pt") as file:
        torch.save({"weights": torch.zeros(7)}, file)
    with checkpoint.reader(f"{place}/checkpoints/small.pt") as file:
        equal(torch.load(file)["weights"].tolist(), [0] * 7)
    errand.did("checkpoint")


def _data_sets(errand: Errand, checkpoint: Any, place: str, where: dict[str, str]) -> None:
    expected = {f"{number:02}.bin": SMALL[number:] for number in range(FILES)}
    with checkpoint.writer(f"{place}/manifest") as file:
        file.write("".join(f"{name}\tlabel-{name}\n" for name in expected).encode())
    uris = [f"{place}/train/{name}" for name in expected]

    def read(found: Any) -> tuple[str, bytes]:
        return Path(found.key).name, found.read()

    for kind in (OssMapDataset, OssIterableDataset):
        for _ in range(2):
            _complete(kind.from_prefix(f"{place}/train/", transform=read, **where), expected)
        _complete(kind.from_objects(uris, transform=read, **where), expected)
        labelled = kind.from_manifest_file(
            f"{place}/manifest",
            manifest_parser,
            f"{place}/train/",
            transform=lambda found: (found.label, found.read()),
            **where,
        )
        _complete(labelled, {f"label-{name}": content for name, content in expected.items()})
    errand.did("list")

    for kind in (OssMapDataset, OssIterableDataset):
        found = kind.from_prefix(f"{place}/train/", transform=read, **where)
        _complete(DataLoader(found, batch_size=None, num_workers=2), expected)
    for number in range(FILES):
        errand.again(f"train/{number:02}.bin")
    errand.did("data set")


def _complete(found: Any, expected: dict[str, bytes]) -> None:
    """A data set or loader gives each of these once, and nothing else."""
    pairs = list(found)
    equal(sorted(name for name, _ in pairs), sorted(expected))
    for name, content in pairs:
        same(content, expected[name])


if __name__ == "__main__":  # the loader's processes may import this again
    main()
