"""Forebay for PyTorch: data sets, samplers that send their order ahead, checkpoints. Needs PyTorch.

Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from forebay_client.torch.connector_datasets import (
        OssIterableDataset,
        OssMapDataset,
        S3IterableDataset,
        S3MapDataset,
    )
    from forebay_client.torch.iterable_dataset import ForebayIterableDataset
    from forebay_client.torch.map_dataset import ForebayMapDataset
    from forebay_client.torch.planned_sampler import PlannedSampler, planned
    from forebay_client.torch.sample_file import SampleFile
    from forebay_client.torch.shard_dataset import ShardDataset

__all__ = [
    "ForebayIterableDataset",
    "ForebayMapDataset",
    "OssIterableDataset",
    "OssMapDataset",
    "PlannedSampler",
    "S3IterableDataset",
    "S3MapDataset",
    "SampleFile",
    "ShardDataset",
    "planned",
]

_MODULES: Final = {
    "ForebayIterableDataset": "iterable_dataset",
    "ForebayMapDataset": "map_dataset",
    "OssIterableDataset": "connector_datasets",
    "OssMapDataset": "connector_datasets",
    "PlannedSampler": "planned_sampler",
    "S3IterableDataset": "connector_datasets",
    "S3MapDataset": "connector_datasets",
    "SampleFile": "sample_file",
    "ShardDataset": "shard_dataset",
    "planned": "planned_sampler",
}


def __getattr__(name: str) -> Any:
    """Imports a public name when it is first used (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
