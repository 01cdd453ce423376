"""Forebay for PyTorch: data sets, samplers that send their order ahead, checkpoints. Needs PyTorch.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from forebay_client.torch.checkpoint_storage import ForebayFileSystem, ForebayStorageReader, ForebayStorageWriter
    from forebay_client.torch.connector_datasets import (
        OssIterableDataset,
        OssMapDataset,
        S3IterableDataset,
        S3MapDataset,
    )
    from forebay_client.torch.iterable_dataset import ForebayIterableDataset
    from forebay_client.torch.lightning_checkpoints import ForebayCheckpointIO
    from forebay_client.torch.map_dataset import ForebayMapDataset
    from forebay_client.torch.planned_sampler import PlannedSampler, planned
    from forebay_client.torch.sample_file import SampleFile
    from forebay_client.torch.saved_files import load, save
    from forebay_client.torch.shard_dataset import ShardDataset

__all__ = [
    "ForebayCheckpointIO",
    "ForebayFileSystem",
    "ForebayIterableDataset",
    "ForebayMapDataset",
    "ForebayStorageReader",
    "ForebayStorageWriter",
    "OssIterableDataset",
    "OssMapDataset",
    "PlannedSampler",
    "S3IterableDataset",
    "S3MapDataset",
    "SampleFile",
    "ShardDataset",
    "load",
    "planned",
    "save",
]

_MODULES: Final = {
    "ForebayCheckpointIO": "lightning_checkpoints",
    "ForebayFileSystem": "checkpoint_storage",
    "ForebayIterableDataset": "iterable_dataset",
    "ForebayMapDataset": "map_dataset",
    "ForebayStorageReader": "checkpoint_storage",
    "ForebayStorageWriter": "checkpoint_storage",
    "OssIterableDataset": "connector_datasets",
    "OssMapDataset": "connector_datasets",
    "PlannedSampler": "planned_sampler",
    "S3IterableDataset": "connector_datasets",
    "S3MapDataset": "connector_datasets",
    "SampleFile": "sample_file",
    "ShardDataset": "shard_dataset",
    "load": "saved_files",
    "planned": "planned_sampler",
    "save": "saved_files",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
